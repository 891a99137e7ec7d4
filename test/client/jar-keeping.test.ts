import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openValise, type Store } from 'mcp-valise/client';
import { generateKey } from 'mcp-valise/seal';
import { memoryStore, openStore } from 'mcp-valise/store';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { child as bundle } from '../child.ts';
import { openDirect } from './direct.ts';
import { connect, type Hosts, openHosts, setting, stateOf } from './hosts.ts';

const SHOP = 'https://shop.example.com/mcp';
const CHILD = bundle(new URL('./jar-child.ts', import.meta.url));

let folder: string;
let hosts: Hosts;
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'valise-jar-'));
  hosts = await openHosts();
});
afterEach(async () => {
  await hosts.close();
  rmSync(folder, { recursive: true });
});

/** Runs a client in a process of its own. */
async function inProcess(store: string, name: string, count: number, end: 'close' | 'kill'): Promise<void> {
  const args = [CHILD, store, String(hosts.port), name, String(count), end];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'ignore', 'pipe'] });
  let complaint = '';
  child.stderr.on('data', (chunk) => (complaint += chunk));
  const [code, signal] = (await once(child, 'close')) as [number | null, string | null];
  if (end === 'kill' ? signal !== 'SIGKILL' : code !== 0) throw new Error(`${code} ${signal} ${complaint}`);
}

const setsWhatIsAsked = () => {
  hosts.respond = ({ method, params }) => {
    const { key } = (params['arguments'] ?? {}) as { key?: string };
    return method === 'tools/call' && key ? setting('legacy', { server: { [key]: key } }) : {};
  };
};

describe('a jar on disk', () => {
  it.each(['sqlite', 'file'])(
    '[J-11] A jar on disk loses nothing if its process is killed right after a result (%s)',
    async (kind) => {
      const store = `${kind}:${join(folder, 'state')}`;
      setsWhatIsAsked();
      for (const name of ['a', 'b', 'c']) await inProcess(store, name, 3, 'kill');
      const valise = await openValise({ store });
      expect(valise.jar.list().map(({ key }) => key)).toEqual([
        'a0',
        'a1',
        'a2',
        'b0',
        'b1',
        'b2',
        'c0',
        'c1',
        'c2',
      ]);
      await valise.close();
    },
  );

  it('Several processes share a jar on disk without losing entries', async () => {
    const store = `sqlite:${join(folder, 'state.db')}`;
    setsWhatIsAsked();
    const names = ['a', 'b', 'c', 'd'];
    await Promise.all(names.map((name) => inProcess(store, name, 20, 'close')));
    const valise = await openValise({ store });
    const keys = valise.jar.list().map(({ key }) => key);
    expect(keys.sort()).toEqual(
      names.flatMap((name) => Array.from({ length: 20 }, (_, at) => `${name}${at}`)).sort(),
    );
    await valise.close();
  });

  it('The default store is in ~/.valise, which only its owner can read', async () => {
    vi.stubEnv('HOME', folder);
    const valise = await openValise();
    await valise.close();
    vi.unstubAllEnvs();
    const place = join(folder, '.valise');
    expect(statSync(place).mode & 0o777).toBe(0o700);
    expect(statSync(join(place, 'state.db')).mode & 0o077).toBe(0);
  });

  it('With keys, the file of a jar contains no readable state', async () => {
    const store = `sqlite:${join(folder, 'state.db')}`;
    const keys = generateKey();
    hosts.respond = () => setting('legacy', { server: { 'secret name': 'secret value' } });
    const valise = await openValise({ store, keys, principal: 'secret principal' });
    const client = await connect(valise, hosts, SHOP);
    await client.close();
    await valise.close();
    const bytes = readdirSync(folder)
      .map((file) => readFileSync(join(folder, file), 'latin1'))
      .join('');
    expect(bytes).not.toMatch(/secret|shop\.example/);
    const again = await openValise({ store, keys, principal: 'secret principal' });
    expect(again.jar.show('shop.example.com')).toMatchObject([{ key: 'secret name', value: 'secret value' }]);
    await again.close();
    await expect(openValise({ store, keys: generateKey() })).rejects.toMatchObject({
      code: 'store-wrong-key',
    });
    await expect(openValise({ store })).rejects.toThrow(/sealed/);
  });

  it('close() closes a store that Valise opened, and leaves a store open that was passed in', async () => {
    const store = memoryStore();
    await (await openValise({ store })).close();
    expect(await store.get('any')).toBeUndefined();
    const url = `file:${join(folder, 'state.json')}`;
    await (await openValise({ store: url })).close();
    expect(existsSync(join(folder, 'state.json.lock'))).toBe(false);
    const opened = await openStore(url);
    await opened.close();
  });
});

describe('several jars on one store', () => {
  let store: Store;
  beforeEach(() => {
    store = memoryStore();
  });

  it('Jars on one store do not overwrite entries of each other', async () => {
    const [one, two] = await Promise.all([openDirect({ store }), openDirect({ store })]);
    const [a, b] = [one.at(SHOP), two.at(SHOP)];
    await Promise.all([a.set({ server: { a: 1, both: 'a' } }), b.set({ server: { b: 1 } })]);
    await Promise.all([a.set({ server: { a: 2 } }), b.set({ server: { both: null, c: 1 } })]);
    const fresh = (await openDirect({ store })).at(SHOP);
    expect(fresh.sent().server).toEqual({ a: 2, b: 1, c: 1 });
  });

  it('Jars on one store see changes of each other when they connect and when they write', async () => {
    const [one, two] = await Promise.all([openDirect({ store }), openDirect({ store })]);
    await one.at(SHOP).set({ server: { a: 1, old: 1 } });
    const late = two.at(SHOP);
    await two.jar.open(late.view);
    expect(late.sent().server).toEqual({ a: 1, old: 1 });
    await one.at(SHOP).set({ server: { b: 1, old: null } });
    await late.set({ server: { c: 1 } });
    expect(late.sent().server).toEqual({ a: 1, b: 1, c: 1 });
  });

  it('Jars on one store see changes of each other after a while', async () => {
    vi.useFakeTimers({ toFake: ['Date'] });
    const [one, two] = await Promise.all([openDirect({ store }), openDirect({ store })]);
    const other = two.at(SHOP);
    other.sent();
    await one.at(SHOP).set({ server: { a: 1 } });
    vi.setSystemTime(Date.now() + 61_000);
    other.sent();
    vi.useRealTimers();
    await expect.poll(() => other.sent()).toEqual({ server: { a: 1 } });
  });

  it('[J-12] After a pause, a jar does not send entries that another process has cleared', async () => {
    vi.useFakeTimers({ toFake: ['Date'] });
    const [valise, other] = [await openValise({ store }), await openValise({ store })];
    hosts.respond = ({ params }) => (params['name'] === 'set' ? setting('legacy', { server: { a: 1 } }) : {});
    const client = await connect(valise, hosts, SHOP);
    await client.callTool({ name: 'set' });
    await other.jar.refresh();
    expect(await other.jar.clear()).toBe(1);
    vi.setSystemTime(Date.now() + 61_000);
    await Promise.all([client.callTool({ name: 'one' }), client.callTool({ name: 'two' })]);
    const sent = hosts.seen.slice(-2).map(({ meta, params }) => [params['name'], stateOf(meta)]);
    vi.useRealTimers();
    expect(sent).toEqual([
      ['one', {}],
      ['two', {}],
    ]);
    await client.close();
    await Promise.all([valise.close(), other.close()]);
  });

  it('[J-12] A jar does not restore entries that another process has cleared', async () => {
    const [one, two] = await Promise.all([openDirect({ store }), openDirect({ store })]);
    await one.at(SHOP).set({ server: { a: 1 } });
    const other = two.at(SHOP);
    await two.jar.open(other.view);
    expect(await one.jar.clear()).toBe(1);
    await other.set({ server: { b: 1 } });
    expect(other.sent().server).toEqual({ b: 1 });
    expect(await one.jar.clear()).toBe(1);
    await two.jar.refresh();
    expect(other.sent()).toEqual({});
    expect((await store.list('')).keys).toEqual([]);
  });

  it('[J-18] Jars on one store keep to the quotas together, even with concurrent writes', async () => {
    const store = memoryStore();
    const quotas = { keysPerServer: 20, keys: 300 };
    const jars = await Promise.all(['a', 'b', 'c', 'd'].map(() => openDirect({ store, quotas })));
    const shops = jars.map(({ at }) => at(SHOP));
    await Promise.all(shops.map(({ view }, at) => jars[at]!.jar.bindSession(view, 'shared')));
    await Promise.all(
      shops.flatMap((shop, at) =>
        Array.from({ length: 30 }, (_, one) =>
          shop.set({ server: { [`${at}.${one}`]: 1 }, session: { [`${at}.${one}`]: 1 } }),
        ),
      ),
    );
    // A jar that keeps more shows all there is.
    const all = (await openDirect({ store, quotas: { keysPerServer: 1000 } })).jar;
    expect(all.list({ scope: 'server' })).toHaveLength(20);
    expect(all.list({ scope: 'session' })).toHaveLength(20);
    for (const [at, { jar }] of jars.entries()) {
      await jar.refresh();
      const { server = {}, session = {} } = shops[at]!.sent();
      expect([Object.keys(server).length, Object.keys(session).length]).toEqual([20, 20]);
    }
  });

  it('[J-18] Jars on one store keep to the quota of all servers if they write to the same one', async () => {
    const store = memoryStore();
    const quotas = { keysPerServer: 50, keys: 300 };
    const jars = [await openDirect({ store, quotas }), await openDirect({ store, quotas })];
    for (const [at, jar] of jars.entries()) {
      for (let server = 0; server < 10; server++) {
        const keys = Array.from({ length: 30 }, (_, one) => [`${at}.${one}`, 1]);
        await jar.at(`https://s${server}.example.com`).set({ server: Object.fromEntries(keys) });
      }
    }
    await jars[1]!.jar.close();
    expect((await openDirect({ store })).jar.list()).toHaveLength(300);
  });

  it('[J-18] A jar with smaller quotas does not evict the entries of another jar that it only reads', async () => {
    const store = memoryStore();
    const large = await openDirect({ store, quotas: { keysPerServer: 100 } });
    const keys = Array.from({ length: 100 }, (_, one) => [`k${one}`, 1]);
    await large.at(SHOP).set({ server: Object.fromEntries(keys) });
    const small = await openDirect({ store, quotas: { keysPerServer: 20 } });
    await small.jar.refresh();
    expect(Object.keys(small.at(SHOP).sent().server!)).toHaveLength(100);
    await small.jar.close();
    await large.jar.refresh();
    expect(large.jar.list()).toHaveLength(100);
  });

  it('An eviction does not delete an entry that another process has just set', async () => {
    vi.useFakeTimers({ toFake: ['Date'] });
    const quotas = { keysPerServer: 20 };
    const [one, two] = await Promise.all([openDirect({ store, quotas }), openDirect({ store })]);
    const keys = Object.fromEntries(Array.from({ length: 20 }, (_, at) => [`k${at}`, 1]));
    const [a, b] = [one.at(SHOP), two.at(SHOP)];
    await a.set({ server: keys });
    vi.setSystemTime(Date.now() + 1000);
    await two.jar.open(b.view);
    await b.set({ server: { k0: 'new' } });
    await a.set({ server: { more: 1 } });
    vi.useRealTimers();
    expect((await openDirect({ store })).at(SHOP).sent().server).toMatchObject({ k0: 'new', more: 1 });
  });

  it('A jar stores when its entries were last used', async () => {
    vi.useFakeTimers({ toFake: ['Date'] });
    const one = await openDirect({ store });
    const shop = one.at(SHOP);
    await shop.set({ server: { a: 1 } });
    vi.setSystemTime(Date.now() + 60_000);
    shop.sent();
    const used = Date.now();
    await one.jar.close();
    const [entry] = (await openDirect({ store })).jar.list();
    vi.useRealTimers();
    expect(entry?.usedAt.getTime()).toBe(used);
  });
});

describe('a store that fails', () => {
  it('A failing store does not delay the result, and close() reports what was not stored', async () => {
    const store = memoryStore();
    const warnings: string[] = [];
    const valise = await openValise({ store });
    valise.on('warning', ({ what }) => warnings.push(what));
    const client = await connect(valise, hosts, SHOP);
    hosts.respond = () => setting('legacy', { server: { a: 1 } });
    store.put = async () => {
      throw new Error('disk full');
    };
    expect(await client.callTool({ name: 'one' })).toMatchObject({ content: [{ text: 'done' }] });
    expect(warnings).toEqual([expect.stringContaining('disk full')]);
    await client.callTool({ name: 'two' });
    expect(stateOf(hosts.last().meta)).toEqual({ server: { a: 1 } });
    await client.close();
    await expect(valise.close()).rejects.toMatchObject({ code: 'not-saved' });
    await expect(valise.pending.list()).rejects.toMatchObject({ code: 'closed' });
    store.put = Object.getPrototypeOf(store).put;
    await valise.close();
    expect((await openDirect({ store })).jar.list()).toHaveLength(1);
  });

  it('A store that does not answer delays the result only briefly, and a warning says so', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const store = memoryStore();
    const { at, events } = await openDirect({ store });
    const warnings: string[] = [];
    events.on('warning', ({ what }) => warnings.push(what));
    store.put = () => new Promise(() => {});
    const done = at(SHOP).set({ server: { a: 1 } });
    await vi.advanceTimersByTimeAsync(4999);
    expect(warnings).toEqual([]);
    await vi.advanceTimersByTimeAsync(1);
    await done;
    expect(warnings).toEqual([
      'The state of shop.example.com could not be stored: the store has not answered within 5 s.',
    ]);
    vi.useRealTimers();
  });

  it('A store that does not answer delays a request with stale entries for at most a second', async () => {
    vi.useFakeTimers({ toFake: ['Date', 'setTimeout', 'clearTimeout'] });
    const store = memoryStore();
    const { at, events, jar } = await openDirect({ store });
    const warnings: string[] = [];
    events.on('warning', ({ what }) => warnings.push(what));
    const { set, view } = at(SHOP);
    await jar.open(view);
    await set({ server: { a: 1 } });
    expect(jar.ready(view, view.session)).toBeUndefined();
    store.get = () => new Promise(() => {});
    vi.setSystemTime(Date.now() + 61_000);
    const ready = jar.ready(view, view.session);
    expect(jar.ready(view, view.session)).toBeDefined();
    await vi.advanceTimersByTimeAsync(999);
    expect(warnings).toEqual([]);
    await vi.advanceTimersByTimeAsync(1);
    await ready;
    expect(jar.ready(view, view.session)).toBeUndefined();
    vi.useRealTimers();
    expect(warnings).toContain(
      'The state of shop.example.com could not be read: the store has not answered within 1 s.',
    );
  });

  it('The jar ignores and overwrites foreign values under its keys', async () => {
    const store = memoryStore();
    const one = await openDirect({ store });
    await one.at(SHOP).set({ server: { a: 1 } });
    const [key] = (await store.list('')).keys;
    for (const junk of [
      7,
      'text',
      {},
      { format: 1, server: 'shop.example.com', items: [1, [2], ['x', 1]] },
      { format: 1, server: 'other.example.com', usedAt: 0, items: [['x', 1, 2, 3, 9e15]] },
    ]) {
      await store.put(key as string, junk);
      const two = await openDirect({ store });
      expect(two.jar.list({ server: SHOP })).toEqual([]);
      await two.at(SHOP).set({ server: { b: 1 } });
      expect((await openDirect({ store })).at(SHOP).sent().server).toEqual({ b: 1 });
    }
  });
});
