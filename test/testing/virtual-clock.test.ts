import { setTimeout as pause } from 'node:timers/promises';
import { Client } from '@modelcontextprotocol/client';
import { McpServer } from '@modelcontextprotocol/server';
import { openValise, SessionGoneError } from 'mcp-valise/client';
import { createSealer, generateKey } from 'mcp-valise/seal';
import { createValise } from 'mcp-valise/server';
import { memoryStore } from 'mcp-valise/store';
import { connectInProcess, type VirtualClock, virtualClock } from 'mcp-valise/testing';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

let clock: VirtualClock;
beforeEach(() => void (clock = virtualClock()));
afterEach(() => clock.restore());

describe('A virtual clock', () => {
  it('a virtual clock expires entries in a store', async () => {
    const store = memoryStore();
    await store.put('key', 'value', { ttl: 3600 });
    await clock.advance('59m');
    expect(await store.get('key')).toMatchObject({ value: 'value' });
    await clock.advance('2m');
    expect(await store.get('key')).toBeUndefined();
    await store.close();
  });

  it('a virtual clock expires leases', async () => {
    const store = memoryStore();
    expect(await store.lease('right', 60)).toBeDefined();
    expect(await store.lease('right', 60)).toBeUndefined();
    await clock.advance('61s');
    expect(await store.lease('right', 60)).toBeDefined();
    await store.close();
  });

  it('a virtual clock ends sessions and expires seals, with client and server in one process', async () => {
    const serverValise = createValise({
      name: 'shop',
      keys: 'ephemeral',
      store: 'memory:',
      sessions: { ttl: '4h' },
    });
    const server = serverValise.install(new McpServer({ name: 'shop', version: '1.0.0' }));
    server.registerTool('visit', {}, async () => {
      const { session } = serverValise.jar;
      const visits = Number(session.get('visits') ?? 0) + 1;
      session.set('visits', visits);
      return { content: [{ type: 'text', text: `visit ${visits}` }] };
    });
    const valise = await openValise({ store: 'memory:' });
    const client = new Client({ name: 'host', version: '1.0.0' });
    await connectInProcess(valise, client, server);
    const session = await valise.sessions(client).create();
    const visit = () => session.run(() => client.callTool({ name: 'visit' }));
    expect(await visit()).toMatchObject({ content: [{ text: 'visit 1' }] });
    await clock.advance('3h');
    expect(await visit()).toMatchObject({ content: [{ text: 'visit 2' }] });
    await clock.advance('5h');
    await expect(visit()).rejects.toBeInstanceOf(SessionGoneError);
    await client.close();
    await valise.close();
    const sealer = createSealer({ keys: generateKey(), ttl: '10m' });
    const token = sealer.seal('value', { purpose: 'test' });
    expect(sealer.open(token, { purpose: 'test' })).toBe('value');
    await clock.advance('12m');
    expect(() => sealer.open(token, { purpose: 'test' })).toThrow(
      expect.objectContaining({ reason: 'expired' }),
    );
  });

  it('a virtual clock runs timers in order when it passes them, and only then', async () => {
    const ran: string[] = [];
    setTimeout(() => ran.push('hour'), 3_600_000);
    setTimeout(() => ran.push('minute'), 60_000);
    const cleared = setTimeout(() => ran.push('cleared'), 1000);
    const ticking = setInterval(() => ran.push(`tick ${Math.round(clock.now() / 1000) - start}`), 1_000_000);
    const start = Math.round(clock.now() / 1000);
    clearTimeout(cleared);
    await clock.advance(30);
    expect(ran).toEqual([]);
    await clock.advance('1h');
    clearInterval(ticking);
    await clock.advance('1h');
    expect(ran.filter((what) => !what.startsWith('tick'))).toEqual(['minute', 'hour']);
    expect(ran.filter((what) => what.startsWith('tick'))).toHaveLength(3);
  });

  it('a virtual clock moves Date and performance.now() alike, and lets real time pass', async () => {
    const [date, measured] = [Date.now(), performance.now()];
    await clock.advance('1h');
    expect(Date.now() - date).toBeGreaterThanOrEqual(3_600_000);
    const made = new Date();
    expect(made.getTime() - date).toBeGreaterThanOrEqual(3_600_000);
    expect(performance.now() - measured).toBeGreaterThanOrEqual(3_599_000);
    expect(new Date(0).toISOString()).toBe('1970-01-01T00:00:00.000Z');
    expect(made).toBeInstanceOf(Date);
    const before = Date.now();
    await pause(5);
    expect(Date.now()).toBeGreaterThan(before);
  });

  it('a process has one virtual clock, which restores the real time', async () => {
    expect(() => virtualClock()).toThrow(expect.objectContaining({ code: 'invalid-argument' }));
    await clock.advance('30d');
    const moved = Date.now();
    clock.restore();
    expect(Date.now()).toBeLessThan(moved - 86_400_000);
    const next = virtualClock();
    clock.restore();
    await next.advance('1h');
    expect(Date.now()).toBe(next.now());
    next.restore();
  });

  it('a virtual clock stops if timers set each other without end', async () => {
    let ended = false;
    const again = (): void => void (ended || setTimeout(again, 1));
    again();
    await expect(clock.advance('1d')).rejects.toMatchObject({ code: 'invalid-argument' });
    ended = true;
  });
});
