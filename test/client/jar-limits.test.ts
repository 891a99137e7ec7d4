import { memoryStore } from 'mcp-valise/store';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { openDirect } from './direct.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['Date'] });
});
afterEach(() => {
  vi.useRealTimers();
});

const keys = (count: number, start = 0) =>
  Object.fromEntries(Array.from({ length: count }, (_, at) => [`k${at + start}`, at]));
const later = (seconds: number) => vi.setSystemTime(Date.now() + seconds * 1000);

it('Events shorten long server names', async () => {
  const { at, events } = await openDirect();
  const told: string[] = [];
  events.on('refused', ({ key = '' }) => told.push(key));
  await at('https://shop.example.com/mcp').set({ server: { ['x'.repeat(1_000_000)]: 1 } });
  expect(told).toEqual([`${'x'.repeat(1024)}…`]);
});

it('[J-20] Events name the server that set an entry of a domain, even if another server changes it', async () => {
  const { at, events, jar } = await openDirect();
  const told: string[] = [];
  for (const name of ['set', 'deleted'] as const)
    events.on(name, ({ server, key }) => told.push(`${name} ${server} ${key}`));
  const [a, b] = [at('https://a.example.com/mcp'), at('https://b.example.com/mcp')];
  const wide = { server: { k: { 'server-scope': 'example.com' } } };
  await a.set({ server: { k: 1 } }, wide);
  await b.set({ server: { k: null } });
  await a.set({ server: { k: 1 } }, wide);
  await b.set({ server: { k: 1 } }, wide);
  expect(told).toEqual([
    'set a.example.com k',
    'deleted a.example.com k',
    'set a.example.com k',
    'deleted a.example.com k',
    'set b.example.com k',
  ]);
  expect(jar.list().map(({ server }) => server)).toEqual(['b.example.com']);
});

describe('quotas', () => {
  it('[J-18] Quotas have minima', async () => {
    for (const quotas of [{ bytesPerKey: 4095 }, { keysPerServer: 19 }, { keys: 299 }, { keys: 300.5 }]) {
      await expect(openDirect({ quotas })).rejects.toMatchObject({ code: 'invalid-argument' });
    }
    await openDirect({ quotas: { bytesPerKey: 4096, keysPerServer: 20, keys: 300 } });
  });

  it('[J-18] A quota allows 4,096 bytes for a key and its value', async () => {
    const { at, log } = await openDirect({ quotas: { bytesPerKey: 4096 } });
    const shop = at('https://shop.example.com');
    const fits = 'ä'.repeat((4096 - 1 - 2) / 2);
    await shop.set({ server: { a: `${fits}x` }, session: { a: `${fits}x` } });
    expect(shop.sent()).toEqual({ server: { a: `${fits}x` }, session: { a: `${fits}x` } });
    await shop.set({ server: { a: `${fits}xy`, bb: `${fits}x`, c: 1 } });
    expect(shop.sent().server).toEqual({ a: `${fits}x`, c: 1 });
    expect(log.slice(2)).toEqual(['refused a', 'refused bb', 'set c']);
  });

  it('[J-18] A quota allows 20 keys per server, and the least recently used key is evicted first', async () => {
    const { at, log } = await openDirect({ quotas: { keysPerServer: 20 } });
    const shop = at('https://shop.example.com');
    const other = at('https://other.example.com');
    await other.set({ server: keys(20) });
    await shop.set({ server: keys(20), session: keys(20) });
    expect(Object.keys(shop.sent().server!)).toHaveLength(20);
    later(1);
    await shop.set({ server: { k0: 'again' } });
    later(1);
    log.length = 0;
    await shop.set({ server: { new: 1 } });
    expect(log).toEqual(['set new', 'evicted k1']);
    expect(Object.keys(shop.sent().session!)).toHaveLength(20);
    expect(Object.keys(other.sent().server!)).toHaveLength(20);
  });

  it('[J-18] A key with a method scope counts as used when its method is called', async () => {
    const { at, log } = await openDirect({ quotas: { keysPerServer: 20 } });
    const shop = at('https://shop.example.com');
    await shop.set(
      { server: { ...keys(19), prompts: 1 } },
      { server: { prompts: { 'method-scope': 'prompts' } } },
    );
    later(1);
    shop.sent('tools/list');
    later(1);
    await shop.set({ server: { one: 1 } });
    expect(log.at(-1)).toBe('evicted prompts');
  });

  it('[J-18] A quota allows 300 keys in total, and the least recently used key is evicted first', async () => {
    const { at, log, jar } = await openDirect({ quotas: { keys: 300 } });
    const servers = [];
    for (let number = 0; number < 300; number++) {
      const server = at(`https://s${number}.example.com`);
      await server.set({ server: { [`k${number}`]: number } });
      servers.push(server);
      later(1);
    }
    expect(jar.list()).toHaveLength(300);
    servers[0]!.sent();
    later(1);
    log.length = 0;
    await at('https://new.example.com').set({ server: { new: 1 } });
    expect(log).toEqual(['set new', 'evicted k1']);
    expect(jar.list()).toHaveLength(300);
    expect(servers[0]!.sent().server).toEqual({ k0: 0 });
  });

  it('[J-18] An owner of many servers does not evict the keys of an owner with few', async () => {
    const { at, jar } = await openDirect({ quotas: { keys: 300, keysPerServer: 20 } });
    const shop = at('https://shop.example.com');
    await shop.set({ server: keys(5) });
    later(1);
    for (let number = 0; number < 1000; number++) {
      await at(`https://s${number}.hostile.org`).set({ server: keys(20) });
    }
    expect(jar.list()).toHaveLength(300);
    expect(shop.sent().server).toEqual(keys(5));
  });

  it('[J-18] Evicted keys are deleted from the store too', async () => {
    const store = memoryStore();
    const { at } = await openDirect({ store, quotas: { keys: 300 } });
    for (let number = 0; number < 310; number++) {
      await at(`https://s${number}.example.com`).set({ server: { k: number } });
      later(1);
    }
    const again = await openDirect({ store });
    expect(again.jar.list()).toHaveLength(300);
    expect(again.at('https://s9.example.com').sent()).toEqual({});
    expect(again.at('https://s10.example.com').sent()).toEqual({ server: { k: 10 } });
  });
});

describe('max-age', () => {
  it('[J-19] State with max-age expires in memory and in the store', async () => {
    const store = memoryStore();
    const { at, log, jar } = await openDirect({ store });
    const shop = at('https://shop.example.com');
    const attributes = { short: { 'max-age': 10 }, long: { 'max-age': 34_560_000 } };
    await shop.set(
      { server: { short: 1, long: 1, usual: 1 }, session: { short: 1 } },
      { server: attributes, session: attributes },
    );
    later(9.9);
    expect(shop.sent()).toEqual({ server: { short: 1, long: 1, usual: 1 }, session: { short: 1 } });
    later(0.1);
    expect(shop.sent()).toEqual({ server: { long: 1, usual: 1 } });
    expect(log.slice(-2)).toEqual(['deleted short', 'deleted short']);
    expect(jar.list().map(({ key }) => key)).toEqual(['long', 'usual']);
    expect((await openDirect({ store })).jar.list().map(({ key }) => key)).toEqual(['long', 'usual']);
    later(34_560_000 - 10);
    expect(shop.sent()).toEqual({});
    expect((await openDirect({ store })).jar.list()).toEqual([]);
  });

  it.each([0, -1, 34_560_001, 1.5, '10', null])(
    '[J-19] State with the max-age %s is refused',
    async (age) => {
      const { at, log } = await openDirect();
      const shop = at('https://shop.example.com');
      await shop.set({ server: { a: 1 } }, { server: { a: { 'max-age': age } } });
      expect(shop.sent()).toEqual({});
      expect(log).toEqual(['refused a']);
    },
  );

  it('[J-19] An invalid max-age leaves the previous value and the other keys of the result unchanged', async () => {
    const { at, log } = await openDirect();
    const shop = at('https://shop.example.com');
    await shop.set({ server: { a: 1 } });
    await shop.set({ server: { a: 2, b: 2 } }, { server: { a: { 'max-age': 0 } } });
    expect(shop.sent()).toEqual({ server: { a: 1, b: 2 } });
    expect(log).toEqual(['set a', 'refused a', 'set b']);
  });

  it('[J-19] Setting the same value again renews its max-age, also for the next process', async () => {
    const store = memoryStore();
    const { at } = await openDirect({ store });
    const shop = at('https://shop.example.com');
    for (let time = 0; time < 10; time++) {
      await shop.set({ server: { a: 1 } }, { server: { a: { 'max-age': 60 } } });
      later(30);
    }
    expect(shop.sent()).toEqual({ server: { a: 1 } });
    expect((await openDirect({ store })).at('https://shop.example.com').sent()).toEqual({ server: { a: 1 } });
  });
});
