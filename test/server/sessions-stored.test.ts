import { type Entry, memoryStore, type Store } from 'mcp-valise/store';
import { describe, expect, it } from 'vitest';
import { resultOf } from './raw-client.ts';
import { connect, count, type Does, errorOf, makeServer, STAGES } from './sessions-tool.ts';

/** Reads the count, lets others go first, and writes one more. */
const slowly: Does = async (session) => {
  const n = session?.get<number>('n') ?? 0;
  await new Promise((resolve) => setImmediate(resolve));
  session?.set('n', n + 1);
  return n + 1;
};

describe.each(STAGES)('stored sessions under parallel calls, on $stage', (at) => {
  it('[S-21] parallel calls lose no update: a handler that lost the race runs again on the current state', async () => {
    const { valise, ran } = makeServer(slowly, { store: memoryStore(), sessions: { mode: 'stored' } });
    const client = await connect(valise, at);
    const session = await client.create();
    const all = await Promise.all(Array.from({ length: 20 }, () => client.use(session)));
    expect(all.map(({ value }) => Number(value)).sort((a, b) => a - b)).toEqual(
      Array.from({ length: 20 }, (_, n) => n + 1),
    );
    expect(ran()).toBeGreaterThan(20);
    expect((await client.use(session)).value).toBe(21);
  });

  it('[S-21] [S-34] parallel calls on several instances lose no update', async () => {
    const store = memoryStore();
    const options = { store, sessions: { mode: 'stored' as const } };
    const clients = await Promise.all([1, 2, 3].map(() => connect(makeServer(slowly, options).valise, at)));
    const session = await clients[0]!.create();
    await Promise.all(Array.from({ length: 30 }, (_, n) => clients[n % 3]!.use(session)));
    expect((await clients[1]!.use(session)).value).toBe(31);
  });

  it('[S-21] the call that lost the race fails and changes nothing with onConflict: fail', async () => {
    const { valise, ran } = makeServer(slowly, {
      store: memoryStore(),
      sessions: { mode: 'stored', onConflict: 'fail' },
    });
    const client = await connect(valise, at);
    const session = await client.create();
    const all = await Promise.all(Array.from({ length: 8 }, () => client.in(session)));
    const failed = all.filter((response) => 'error' in response);
    expect(failed.length).toBeGreaterThan(0);
    for (const response of failed) {
      expect(errorOf(response)).toEqual({
        code: -31045,
        message: 'Session conflict',
        data: { sessionId: session.sessionId, 'dev.valise/outcome': 'not-done' },
      });
    }
    expect(ran()).toBe(8);
    expect((await client.use(session)).value).toBe(8 - failed.length + 1);
  });

  it('[S-31] parallel calls that use different namespaces do not conflict', async () => {
    const { valise, ran } = makeServer(
      async (session, { ns }) => {
        const values = session?.namespace(ns as string);
        const n = values?.get<number>('n') ?? 0;
        await new Promise((resolve) => setImmediate(resolve));
        values?.set('n', n + 1);
        return n + 1;
      },
      { store: memoryStore(), sessions: { mode: 'stored' } },
    );
    const client = await connect(valise, at);
    const session = await client.create();
    await Promise.all(Array.from({ length: 10 }, (_, n) => client.use(session, { ns: `module-${n}` })));
    expect(ran()).toBe(10);
    const again = await Promise.all(
      Array.from({ length: 10 }, (_, n) => client.use(session, { ns: `module-${n}` })),
    );
    expect(again.map(({ value }) => value)).toEqual(Array(10).fill(2));
  });
});

describe.each(STAGES)('stored sessions, on $stage', (at) => {
  const { method, code, sent } = at;

  it('a conflict is detected if an author changes a value in place and another call makes the same change', async () => {
    const { valise } = makeServer(
      async (session) => {
        const list = session?.get<string[]>('list') ?? [];
        await new Promise((resolve) => setImmediate(resolve));
        list.push('x');
        session?.set('list', list);
        return list.length;
      },
      { store: memoryStore(), sessions: { mode: 'stored' } },
    );
    const client = await connect(valise, at);
    const session = await client.create();
    const all = await Promise.all(Array.from({ length: 5 }, () => client.use(session)));
    expect(all.map(({ value }) => Number(value)).sort()).toEqual([1, 2, 3, 4, 5]);
  });

  it('a call reads its session once, and writes it only if something changed', async () => {
    const store = counted(memoryStore());
    const { valise } = makeServer(
      (session, { n }) => (n ? session?.set('n', n as number) : session?.get('n')),
      {
        store,
        sessions: { mode: 'stored' },
      },
    );
    const client = await connect(valise, at);
    const session = await client.create();
    store.reset();
    await client.use(session);
    expect(store.calls).toEqual({ get: 1, put: 0 });
    await client.use(session, { n: 1 });
    expect(store.calls).toEqual({ get: 2, put: 1 });
    await client.use(session, { n: 1 });
    expect(store.calls).toEqual({ get: 3, put: 1 });
  });

  it('a call whose session is deleted while its handler runs fails with session not found', async () => {
    let release = () => {};
    const held = new Promise<void>((resolve) => (release = resolve));
    const { valise } = makeServer(
      async (session) => {
        await held;
        return count(session, {});
      },
      { store: memoryStore(), sessions: { mode: 'stored' } },
    );
    const client = await connect(valise, at);
    const session = await client.create();
    const running = client.in(session);
    await client.request(method.delete, { _meta: sent(session) });
    release();
    expect(errorOf(await running).code).toBe(code.notFound);
  });

  it('a call gets an error response if the store fails', async () => {
    const store = memoryStore();
    const { valise, ran } = makeServer(count, { store, sessions: { mode: 'stored' } });
    const client = await connect(valise, at);
    const session = await client.create();
    await store.close();
    expect(errorOf(await client.in(session))).toMatchObject({ code: -32603, data: { code: 'closed' } });
    expect(errorOf(await client.request(method.create)).code).toBe(-32603);
    expect(ran()).toBe(0);
  });

  it('stored sessions work without a store in one process, with a warning', async () => {
    const warnings: string[] = [];
    const { valise } = makeServer(slowly, {
      sessions: { mode: 'stored' },
      events: { warning: ({ what }) => warnings.push(what) },
    });
    const client = await connect(valise, at);
    const session = await client.create();
    await Promise.all([client.use(session), client.use(session)]);
    expect((await client.use(session)).value).toBe(3);
    expect(warnings.join()).toMatch(/there is no store/);
  });

  it('a stored session is forked from its state in the store', async () => {
    const { valise } = makeServer(count, { store: memoryStore(), sessions: { mode: 'stored' } });
    const client = await connect(valise, at);
    const session = await client.create();
    await client.use(session);
    const params = { _meta: sent({ sessionId: session.sessionId }) };
    const forked = resultOf(await client.request(method.fork, params))['session'];
    expect((await client.use(forked as typeof session)).value).toBe(2);
  });
});

function counted(store: Store): Store & { calls: { get: number; put: number }; reset(): void } {
  const calls = { get: 0, put: 0 };
  return {
    ...bound(store),
    calls,
    reset: () => void Object.assign(calls, { get: 0, put: 0 }),
    get(key): Promise<Entry | undefined> {
      if (key.startsWith('sessions/')) calls.get++;
      return store.get(key);
    },
    put(key, value, options) {
      if (key.startsWith('sessions/')) calls.put++;
      return store.put(key, value, options);
    },
  };
}

function bound(store: Store): Store {
  return {
    get: (key) => store.get(key),
    put: (key, value, options) => store.put(key, value, options),
    delete: (key, options) => store.delete(key, options),
    list: (prefix, options) => store.list(prefix, options),
    lease: (key, ttl) => store.lease(key, ttl),
    close: () => store.close(),
  };
}
