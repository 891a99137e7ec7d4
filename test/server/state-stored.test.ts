import { createValise, type ServerJar, type ServerValiseOptions } from 'mcp-valise/server';
import { memoryStore, type Store } from 'mcp-valise/store';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { z } from 'zod';
import type { Meta } from '../../src/wire/index.ts';
import { cuttable } from './cuttable-store.ts';
import { MAJORS } from './majors.ts';
import { rawClient, resultOf, textOf } from './raw-client.ts';
import { counting, metaOf, tool } from './state-tool.ts';

const STOCK = {};
const keys = 'T0aGXc1lJg5o3VtW3bYpW2yZr9s0u1v2w3x4y5z6A7Q';

/** A stock client of a server whose one tool does with the state what the test says. */
function stock(
  work: (state: ServerJar) => unknown,
  options: Partial<ServerValiseOptions> & { readonly store: Store | undefined },
  major = MAJORS[1] as (typeof MAJORS)[number],
) {
  return tool(major, work, { keys, ...options }, STOCK);
}

async function keysIn(store: Store): Promise<readonly string[]> {
  return (await store.list('')).keys;
}

afterEach(() => void vi.useRealTimers());

describe.each(MAJORS)('a client that carries no state, on an SDK $major server', (major) => {
  it('a client that carries no state is served from the store, and nothing shows on the wire', async () => {
    const client = await stock(counting, { store: memoryStore() }, major);
    expect(textOf(await client.call('work'))).toBe('[1,1]');
    const again = await client.call('work');
    expect(textOf(again)).toBe('[2,2]');
    expect(metaOf(again)).toBeUndefined();
  });

  it('stored session state belongs to a session, and stored server state to a principal', async () => {
    const store = memoryStore();
    const as = (subject: string) => stock(counting, { store, principal: () => ({ subject }) }, major);
    const [ann, annAgain, bob] = [await as('ann'), await as('ann'), await as('bob')];
    expect(textOf(await ann.call('work'))).toBe('[1,1]');
    expect(textOf(await annAgain.call('work'))).toBe('[1,2]');
    expect(textOf(await bob.call('work'))).toBe('[1,1]');
    expect(textOf(await ann.call('work'))).toBe('[2,3]');
  });

  it('set throws and get returns undefined if there is no store', async () => {
    const client = await stock(({ session }) => session.get('n') ?? 'nothing', { store: undefined }, major);
    expect(textOf(await client.call('work'))).toBe('"nothing"');
    const setting = await stock(counting, { store: undefined }, major);
    const result = await setting.call('work');
    expect(result).toMatchObject({ isError: true });
    expect(textOf(result)).toMatch(/does not carry state.*no store to keep it in\.$/);
  });
});

describe('state in the store', () => {
  it('stored state is read while the store accepts no writes, and its expiry is extended later', async () => {
    vi.useFakeTimers({ toFake: ['Date'] });
    const { store, cut } = cuttable();
    const warnings: string[] = [];
    const client = await stock(
      ({ session }) => {
        if (!session.has('n')) session.set('n', 1);
        return session.get('n');
      },
      { store, jar: { ttl: '10s' }, events: { warning: ({ what }) => warnings.push(what) } },
    );
    const later = async (): Promise<string> => {
      vi.setSystemTime(Date.now() + 6000);
      return textOf(await client.call('work'));
    };
    expect(await later()).toBe('1');
    Object.assign(cut, { off: true, writes: true });
    expect(await later()).toBe('1');
    expect(warnings).toEqual([expect.stringContaining('The expiry of state could not be extended')]);
    cut.off = false;
    expect(textOf(await client.call('work'))).toBe('1');
    expect(await later()).toBe('1');
  });

  it('stored state does not change if a handler changes the object that get returned', async () => {
    const client = await stock(
      ({ session }) => {
        const cart = session.get('cart') as string[] | undefined;
        if (!cart) return session.set('cart', ['tea']);
        cart.push('milk');
        // The other name is written, and all of one owner's state is one entry.
        session.set('seen', true);
        return cart;
      },
      { store: memoryStore() },
    );
    await client.call('work');
    for (const _ of [1, 2]) expect(textOf(await client.call('work'))).toBe('["tea","milk"]');
  });

  it('stored session state ends with its connection, and a principal’s server state does not', async () => {
    const store = memoryStore();
    const client = await stock(counting, { store, principal: () => ({ subject: 'ann' }) });
    await client.call('work');
    expect(await keysIn(store)).toHaveLength(2);
    await client.close();
    await expect.poll(() => keysIn(store)).toEqual([expect.stringMatching(/^state\/server\//)]);
  });

  it('stored server state without a principal ends with the session, and one warning says so', async () => {
    const store = memoryStore();
    const warnings: string[] = [];
    const client = await stock(counting, { store, events: { warning: ({ what }) => warnings.push(what) } });
    await client.call('work');
    await client.call('work');
    expect(warnings).toEqual([expect.stringMatching(/^Server-scope state .* ends with its session/)]);
    await client.close();
    await expect.poll(() => keysIn(store)).toEqual([]);
  });

  it('the record of stored state is deleted with its last entry', async () => {
    const store = memoryStore();
    let round = 0;
    const client = await stock(({ session }) => (round++ === 0 ? session.set('a', 1) : session.delete('a')), {
      store,
    });
    await client.call('work');
    expect(await keysIn(store)).toHaveLength(1);
    await client.call('work');
    expect(await keysIn(store)).toEqual([]);
  });

  it('a call that fails or only reads does not write stored state', async () => {
    const store = memoryStore();
    const put = vi.spyOn(store, 'put');
    const valise = createValise({ name: 'test', keys, store });
    const server = valise.install(new MAJORS[1].McpServer({ name: 'test', version: '1.0.0' }));
    server.server.setRequestHandler('ping', async () => {
      valise.jar.session.set('a', 1);
      throw new Error('no');
    });
    server.registerTool('work', { inputSchema: z.object({}) }, async () => ({
      content: [{ type: 'text', text: JSON.stringify(valise.jar.session.keys()) }],
    }));
    const [near, far] = MAJORS[1].Memory.createLinkedPair();
    await server.connect(far);
    const client = await rawClient(near, STOCK);
    expect(await client.request('ping')).toHaveProperty('error');
    expect(textOf(await client.call('work'))).toBe('[]');
    expect(put).not.toHaveBeenCalled();
  });

  it('stored session state belongs to the data-layer session if the client uses one', async () => {
    const client = await stock(counting, { store: memoryStore(), sessions: {} });
    const create = async () => {
      const { session } = resultOf(await client.request('sessions/create')) as { session?: object };
      return { 'io.modelcontextprotocol/session': session };
    };
    const [one, other] = [await create(), await create()];
    const count = async (meta?: object) => {
      const [session] = JSON.parse(textOf(await client.call('work', {}, meta as Meta))) as number[];
      return session;
    };
    expect([await count(one), await count(one), await count(other), await count()]).toEqual([1, 2, 1, 1]);
  });

  it('stored state of one server is invisible to another server on the same store', async () => {
    const store = memoryStore();
    const principal = () => ({ subject: 'ann' });
    const shop = await stock(counting, { store, principal, name: 'shop' });
    const bank = await stock(counting, { store, principal, name: 'bank' });
    expect(textOf(await shop.call('work'))).toBe('[1,1]');
    expect(textOf(await bank.call('work'))).toBe('[1,1]');
  });

  it('parallel calls that set different names lose none of them', async () => {
    const store = memoryStore();
    const open: (() => void)[] = [];
    let names = 0;
    const client = await stock(
      async ({ session }) => {
        const name = `k${names++}`;
        if (names <= 40) await new Promise<void>((resolve) => open.push(resolve));
        session.set(name, name);
        return session.keys().length;
      },
      { store },
    );
    const calls = Array.from({ length: 40 }, () => client.call('work'));
    await expect.poll(() => open.length).toBe(40);
    for (const release of open) release();
    await Promise.all(calls);
    expect(textOf(await client.call('work'))).toBe('41');
  });

  it('[J-19] a stored value expires with the maxAge of its key', async () => {
    vi.useFakeTimers({ toFake: ['Date'], now: 0 });
    const client = await stock(
      ({ server }) => {
        const found = server.keys();
        if (found.length === 0) for (const name of ['minute', 'long']) server.set(name, 1);
        return found;
      },
      {
        store: memoryStore(),
        principal: () => ({ subject: 'ann' }),
        jar: { server: { minute: { maxAge: 60 } } },
      },
    );
    const at = async (milliseconds: number) => {
      vi.setSystemTime(milliseconds);
      return textOf(await client.call('work'));
    };
    expect(await at(0)).toBe('[]');
    expect(await at(59_999)).toBe('["minute","long"]');
    expect(await at(60_000)).toBe('["long"]');
    expect(await at(34_560_000_000)).toBe('[]');
  });

  it('stored session state stays while the session is used, and expires afterwards', async () => {
    vi.useFakeTimers({ toFake: ['Date'], now: 0 });
    const minutes = (n: number) => vi.setSystemTime(n * 60_000);
    const client = await stock(
      ({ session }) => {
        const found = session.keys();
        if (found.length === 0) session.set('a', 1);
        return found;
      },
      { store: memoryStore(), jar: { ttl: '1h' } },
    );
    await client.call('work');
    for (const at of [40, 90, 130]) {
      minutes(at);
      expect(textOf(await client.call('work'))).toBe('["a"]');
    }
    minutes(191);
    expect(textOf(await client.call('work'))).toBe('[]');
  });

  it('[J-21] a stored value is visible only to the methods of its scope, as with a client that carries it', async () => {
    const client = await stock(
      ({ session }) => {
        const found = session.keys();
        for (const name of ['here', 'there', 'all']) session.set(name, 1);
        return found;
      },
      {
        store: memoryStore(),
        jar: {
          session: { here: { methodScope: 'tools/call/work' }, there: { methodScope: 'tools/call/other' } },
        },
      },
    );
    await client.call('work');
    expect(textOf(await client.call('work'))).toBe('["here","all"]');
  });

  it('stored state may have any name', async () => {
    const names = ['__proto__', 'constructor', ''];
    const client = await stock(
      ({ session }) => {
        const found = names.map((name) => session.get(name) ?? null);
        for (const name of names) session.set(name, name);
        return found;
      },
      { store: memoryStore() },
    );
    expect(textOf(await client.call('work'))).toBe('[null,null,null]');
    expect(textOf(await client.call('work'))).toBe('["__proto__","constructor",""]');
  });

  it('the stored state of one client is limited in size', async () => {
    const client = await stock(
      ({ session }) => {
        for (let n = 0; n < 17; n++) session.set(`k${n}`, 'x'.repeat(65_000));
      },
      { store: memoryStore() },
    );
    const response = await client.request('tools/call', { name: 'work', arguments: {} });
    expect(response).toMatchObject({
      error: { code: -32603, message: expect.stringMatching(/could not be saved: All state of one client/) },
    });
  });
});

describe('a store that fails', () => {
  const failing = (method: 'get' | 'put'): Store =>
    Object.assign(memoryStore(), { [method]: () => Promise.reject(new Error('the disk is gone')) });

  it('a store that fails affects only handlers that use the jar', async () => {
    const client = await stock(counting, { store: failing('get') });
    expect(await client.request('tools/call', { name: 'work', arguments: {} })).toMatchObject({
      error: { code: -32603, message: 'Internal error: the server could not work on the request.' },
    });
    expect(resultOf(await client.request('tools/list'))['tools']).toHaveLength(1);
  });

  it('a call whose state could not be saved fails, and its error does not reveal why', async () => {
    const client = await stock(counting, { store: failing('put') });
    expect(await client.request('tools/call', { name: 'work', arguments: {} })).toMatchObject({
      error: {
        code: -32603,
        message: expect.stringContaining('does not know whether it took effect'),
        data: { 'dev.valise/outcome': 'unknown' },
      },
    });
  });

  it('a call gives up saving state if others always write first', async () => {
    const store = Object.assign(memoryStore(), { put: async () => undefined });
    const client = await stock(({ session }) => session.set('a', 1), { store });
    expect(await client.request('tools/call', { name: 'work', arguments: {} })).toMatchObject({
      error: { code: -32603, message: expect.stringMatching(/others wrote it 100 times in between/) },
    });
  });
});

describe('a store that is given as a URL', () => {
  it('createValise throws for the URL of an unknown kind of store', () => {
    expect(() => createValise({ name: 'shop', keys, store: 'bogus:x' })).toThrow('names no kind of store');
    expect(() => createValise({ name: 'shop', keys, store: 'memory:shop' })).toThrow('takes no name');
    expect(() => createValise({ name: 'shop', keys, store: 'nothing' })).toThrow('not the URL of a store');
  });
});
