import { createValise } from 'mcp-valise/server';
import { afterEach, describe, expect, it } from 'vitest';
import { call, flowPeer, modernCall, text } from './flow-peer.ts';
import { endServers, FORMS, call as httpCall, listen, post } from './http-stage.ts';
import { MAJORS } from './majors.ts';

afterEach(endServers);

const BUSY = {
  code: -32603,
  message: 'Internal error: the server has too much to do. Try again in a moment.',
  data: { code: 'overloaded', 'dev.valise/outcome': 'not-done' },
};

describe.each(MAJORS)('maxInFlight of an SDK $major server', (major) => {
  const stage = async () => {
    const told: unknown[] = [];
    const goOn: (() => void)[] = [];
    const options = { maxInFlight: 2, events: { overloaded: (event: unknown) => told.push(event) } };
    const peer = await flowPeer(
      major,
      () => new Promise((resolve) => goOn.push(() => resolve(text('done')))),
      { options },
    );
    return { peer, told, goOn };
  };

  it('maxInFlight refuses one more request as safe to retry, emits an event, and then serves again', async () => {
    const { peer, told, goOn } = await stage();
    peer.tell(call());
    peer.tell(modernCall());
    await expect.poll(() => goOn.length).toBe(2);
    for (const message of [call(), modernCall()]) {
      expect(await peer.say(message)).toEqual({ jsonrpc: '2.0', id: message.id, error: BUSY });
    }
    expect(told).toEqual([{ maxInFlight: 2 }, { maxInFlight: 2 }]);
    expect(JSON.stringify(peer.warnings)).not.toContain('could not be served');
    expect((await peer.say({ jsonrpc: '2.0', id: 'p', method: 'ping' })).result).toEqual({});
    goOn[0]?.();
    expect((await peer.next()).result).toMatchObject(text('done'));
    const third = call();
    peer.tell(third);
    await expect.poll(() => goOn.length).toBe(3);
    goOn[2]?.();
    expect(await peer.next()).toMatchObject({ id: third.id, result: text('done') });
  });

  it('maxInFlight does not count canceled requests or those of a closed connection', async () => {
    const { peer, goOn } = await stage();
    const cancelled = call();
    peer.tell(cancelled);
    await expect.poll(() => goOn.length).toBe(1);
    peer.tell({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: cancelled.id } });
    await peer.say({ jsonrpc: '2.0', id: 'p', method: 'ping' });
    peer.tell(call());
    peer.tell(call());
    await expect.poll(() => goOn.length).toBe(3);
    await peer.close();
    const next = await flowPeer(major, () => text('served'), { valise: peer.valise });
    expect((await next.say(call())).result).toMatchObject(text('served'));
    await next.close();
  });
});

it('maxInFlight covers all HTTP requests of an instance', async () => {
  const valise = createValise({ name: 'test', maxInFlight: 1, principal: () => undefined });
  const url = await listen(FORMS['v2, web standard']!(valise));
  const answers = await Promise.all(
    Array.from({ length: 20 }, () => post(url, httpCall('plain')).then(({ message }) => message)),
  );
  const served = answers.filter((message) => message.result !== undefined);
  expect(served.length).toBeGreaterThan(0);
  for (const { error } of answers.filter((message) => message.error)) expect(error).toEqual(BUSY);
  expect((await post(url, httpCall('plain'))).message.result).toBeDefined();
});

it('maxInFlight refuses an invalid limit', () => {
  expect(() => createValise({ name: 'test', maxInFlight: 0 })).toThrow(/a whole number from 1/);
});
