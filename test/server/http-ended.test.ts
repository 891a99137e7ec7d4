import { generateKey } from 'mcp-valise/seal';
import { createValise, type ServerValiseOptions } from 'mcp-valise/server';
import { memoryStore } from 'mcp-valise/store';
import { afterEach, describe, expect, it } from 'vitest';
import { call, endServers, FORMS, initialize, listen, post } from './http-stage.ts';

afterEach(endServers);

describe.each(Object.entries(FORMS))('DELETE of a session id of the HTTP edge (%s)', (_, form) => {
  const stage = async (options: Partial<ServerValiseOptions> = {}) => {
    const valise = createValise({ name: 'test', ...options });
    const url = await listen(form(valise));
    const open = async () => ({
      'mcp-session-id': (await post(url, initialize({}))).headers.get('mcp-session-id') as string,
    });
    const end = async (headers: Record<string, string>) =>
      (await fetch(url, { method: 'DELETE', headers })).status;
    const count = async (headers: Record<string, string>) => {
      const { status, message } = await post(url, call('count'), headers);
      return status === 200 ? message.result.content[0].text : status;
    };
    return { valise, url, open, end, count };
  };

  it('DELETE ends a transport session on every instance, together with its default session', async () => {
    const ends: unknown[] = [];
    const sessions = {
      mode: 'stored',
      onEnd: ({ id, reason, get }: { id: string; reason: string; get(key: string): unknown }) =>
        void ends.push([id.split('-')[0], reason, get('n')]),
    } as const;
    const shared = { keys: generateKey(), store: memoryStore(), sessions };
    const [one, two] = await Promise.all([stage(shared), stage(shared)]);
    const [session, other] = [await one.open(), await one.open()];
    expect([await one.count(session), await two.count(session), await one.count(other)]).toEqual([
      '1',
      '2',
      '1',
    ]);
    expect(await two.end(session)).toBe(200);
    expect(ends).toEqual([['implicit', 'closed', 2]]);
    expect([await one.count(session), await two.count(session), await two.end(session)]).toEqual([
      404, 404, 404,
    ]);
    expect(await two.count(other)).toBe('2');
    expect(ends).toHaveLength(1);
    await Promise.all([one.valise.close(), two.valise.close()]);
  });

  it('DELETE of a transport session is not available without a store', async () => {
    const { url, open, end } = await stage();
    const session = await open();
    expect(await end(session)).toBe(405);
    expect((await post(url, call('plain'), session)).status).toBe(200);
  });

  it('clients are still served while the store cannot tell whether their transport session has ended', async () => {
    const warnings: string[] = [];
    const store = memoryStore();
    const { url, open, end } = await stage({ store, events: { warning: ({ what }) => warnings.push(what) } });
    const session = await open();
    await store.close();
    expect((await post(url, call('plain'), session)).status).toBe(200);
    expect(warnings).toContainEqual(expect.stringContaining('whether a transport session was terminated'));
    expect(await end(session)).toBe(500);
  });
});

it('a store that does not answer does not delay a client for long', async () => {
  const inner = memoryStore();
  const get = inner.get.bind(inner);
  const never = new Promise<undefined>(() => {});
  const store = Object.assign(inner, {
    get: (key: string) => (key.startsWith('transport/') ? never : get(key)),
  });
  const url = await listen(FORMS['v2, web standard']!(createValise({ name: 'test', store })));
  const session = (await post(url, initialize({}))).headers.get('mcp-session-id') as string;
  const ping = { jsonrpc: '2.0', id: 1, method: 'ping' };
  expect((await post(url, ping, { 'mcp-session-id': session })).status).toBe(200);
});
