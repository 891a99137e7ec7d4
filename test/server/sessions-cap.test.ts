import type { EndedSession, NewSession, SessionsOptions } from 'mcp-valise/server';
import { memoryStore, openStore, type Store } from 'mcp-valise/store';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { service, uniqueName } from '../services.ts';
import { resultOf } from './raw-client.ts';
import { connect, count, errorOf, makeServer, STAGES, type Wire } from './sessions-tool.ts';

const at = STAGES[2];
const MODES = ['sealed', 'stored'] as const;
const urls = { redis: await service('redis'), postgres: await service('postgres') };

/** What the author's hooks held over all instances, and what they were told in which order. */
function resources() {
  const held = new Set<string>();
  const log: string[] = [];
  return {
    held,
    log,
    onCreate: (session: Pick<NewSession, 'id'>) => {
      held.add(session.id);
      log.push(`begun ${session.id}`);
    },
    onEnd: ({ id, reason }: EndedSession) => {
      held.delete(id);
      log.push(`${reason} ${id}`);
    },
  };
}

/** A promise, and what settles it. */
function gate() {
  let open = (): void => undefined;
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { opened, open };
}

const start = async (sessions: SessionsOptions, store: Store | undefined, name = 'test') => {
  const { valise } = makeServer(count, { name, store, sessions, principal: () => ({ subject: 'ann' }) });
  return { valise, client: await connect(valise, at) };
};

type Instance = Awaited<ReturnType<typeof start>>;

const madeBy = async ({ client }: Instance): Promise<Wire | undefined> => {
  const response = await client.request(at.method.create);
  if ('result' in response) return resultOf(response)['session'] as Wire;
  expect(response.error).toMatchObject({ code: -32600, data: { code: 'limit-reached' } });
  return undefined;
};

const listedBy = async ({ client }: Instance): Promise<string[]> => {
  const sessions = resultOf(await client.request(at.method.list))['sessions'] as Wire[];
  return sessions.map(({ sessionId }) => sessionId).sort();
};

const livingOf = async ({ client }: Instance, made: readonly (Wire | undefined)[]): Promise<Wire[]> => {
  const living: Wire[] = [];
  for (const session of made) if (session && 'result' in (await client.in(session))) living.push(session);
  return living;
};

/** Makes many sessions at once, and checks that the cap held and that every one was begun and ended as it should be. */
async function crowd(instances: readonly [Instance, ...Instance[]], cap: number, hooks = resources()) {
  const made = await Promise.all(
    Array.from({ length: 8 * instances.length }, (_, n) => madeBy(instances[n % instances.length]!)),
  );
  const living = await livingOf(instances[0], made);
  const ids = living.map(({ sessionId }) => sessionId).sort();
  expect(ids).toHaveLength(cap);
  expect(await listedBy(instances[0])).toEqual(ids);
  if (hooks.log.length > 0) expect([...hooks.held].sort()).toEqual(ids);
  for (const session of living)
    await instances[0].client.request(at.method.delete, { _meta: at.sent(session) });
  return { made };
}

/** Each session is begun once, then ends once. */
function expectPaired(log: readonly string[]) {
  const steps = new Map<string, string[]>();
  for (const line of log) {
    const [step, id] = line.split(' ') as [string, string];
    steps.set(id, [...(steps.get(id) ?? []), step]);
  }
  for (const each of steps.values())
    expect(each).toEqual(['begun', expect.stringMatching(/^(evicted|deleted)$/)]);
}

describe.each(MODES)('the cap on %s sessions', (mode) => {
  it.each([
    ['with a store', memoryStore],
    ['without a store', () => undefined],
  ])(
    'the cap holds while onCreate runs, and onEnd is called for every prepared session, %s',
    async (_, store) => {
      const hooks = resources();
      const all = gate();
      let waiting = 0;
      const onCreate = async (session: NewSession) => {
        if (++waiting === 8) all.open();
        await all.opened;
        hooks.onCreate(session);
      };
      const instance = await start({ mode, maxPerPrincipal: 3, onCreate, onEnd: hooks.onEnd }, store());
      const { made } = await crowd([instance], 3, hooks);
      expect(made.filter((session) => session !== undefined)).toHaveLength(3);
      expect(hooks.log).toHaveLength(16);
      expectPaired(hooks.log);
      await instance.valise.close();
    },
  );

  it('the cap holds if the record of a session is written slowly', async () => {
    const slow = gate();
    let writes = 0;
    const store = memoryStore();
    const { put } = store;
    store.put = async (key, ...rest) => {
      if (key.includes('/record/') && writes++ === 0) await slow.opened;
      return put.call(store, key, ...rest);
    };
    const instance = await start({ mode, maxPerPrincipal: 1 }, store);
    const first = madeBy(instance);
    const second = await madeBy(instance);
    slow.open();
    expect(await livingOf(instance, [await first, second])).toHaveLength(1);
    expect(await listedBy(instance)).toHaveLength(1);
    await instance.valise.close();
  });

  it('a session that is evicted while onCreate prepares it ends only after onCreate, with what onCreate set', async () => {
    const hooks = resources();
    const [entered, prepared] = [gate(), gate()];
    const ended: unknown[] = [];
    const instance = await start(
      {
        mode,
        maxPerPrincipal: 1,
        async onCreate(session) {
          session.set('browser', 7);
          hooks.onCreate(session);
          if (hooks.log.length > 1) return;
          entered.open();
          await prepared.opened;
        },
        onEnd: (session) => void ended.push([session.reason, session.get('browser')]),
      },
      memoryStore(),
    );
    const { client } = instance;
    const first = client.request(at.method.create);
    await entered.opened;
    expect(await listedBy(instance)).toEqual([]);
    const [id] = [...hooks.held] as [string];
    expect(errorOf(await client.in({ sessionId: id })).code).toBe(at.code.notFound);
    const second = await client.create();
    expect(ended).toEqual([]);
    prepared.open();
    expect(errorOf(await first)).toMatchObject({ code: -32600, data: { code: 'limit-reached' } });
    expect(ended).toEqual([['evicted', mode === 'stored' ? 7 : undefined]]);
    expect((await client.use(second)).value).toBe(1);
    expect(await listedBy(instance)).toEqual([second.sessionId]);
    await instance.valise.close();
  });

  it('onEnd is not called for an evicted session whose onCreate then failed', async () => {
    const hooks = resources();
    const [entered, refused] = [gate(), gate()];
    const instance = await start(
      {
        mode,
        maxPerPrincipal: 1,
        async onCreate(session) {
          if (session.label !== 'no') return hooks.onCreate(session);
          entered.open();
          await refused.opened;
          throw new Error('No browser is free.');
        },
        onEnd: hooks.onEnd,
      },
      memoryStore(),
    );
    const first = instance.client.request(at.method.create, { hints: { label: 'no' } });
    await entered.opened;
    const second = await instance.client.create();
    refused.open();
    expect(errorOf(await first).message).toBe('No browser is free.');
    expect(hooks.log).toEqual([`begun ${second.sessionId}`]);
    await instance.valise.close();
  });

  it('creating a session takes three operations of the store', async () => {
    const store = memoryStore();
    const steps: string[] = [];
    const watched = new Proxy(store, {
      get:
        (_, method: keyof Store) =>
        (key: string, ...rest: unknown[]) => {
          if (key?.startsWith('sessions/')) steps.push(`${method} ${key.split('/')[2]}`);
          return (store[method] as (...args: unknown[]) => unknown).call(store, key, ...rest);
        },
    });
    const instance = await start({ mode }, watched);
    await instance.client.create();
    expect(steps).toEqual(['put record', 'get index', 'put index']);
    await instance.valise.close();
  });
});

describe('resources that onCreate allocates', () => {
  it('onEnd frees what onCreate allocated if the first state is too large for the client to carry', async () => {
    const hooks = resources();
    const instance = await start(
      {
        mode: 'sealed',
        maxState: 100,
        onCreate(session) {
          hooks.onCreate(session);
          session.set('a', 'x'.repeat(60));
          session.set('b', 'x'.repeat(60));
        },
        onEnd: hooks.onEnd,
      },
      memoryStore(),
    );
    expect(errorOf(await instance.client.request(at.method.create)).data).toEqual({
      code: 'too-large',
    });
    expect(hooks.held.size).toBe(0);
    expect(hooks.log.at(-1)).toMatch(/^revoked /);
    expect(await listedBy(instance)).toEqual([]);
    await instance.valise.close();
  });
});

describe.each(MODES)('resources that onCreate allocates for a %s session', (mode) => {
  describe('the passing of time', () => {
    beforeEach(() => void vi.useFakeTimers({ toFake: ['Date', 'setTimeout', 'clearTimeout'] }));
    afterEach(() => void vi.useRealTimers());

    it.each([
      ['', 2],
      [', even if the session was evicted before', 1],
    ])(
      'another instance calls onEnd for a session whose instance died during onCreate%s',
      async (_, maxPerPrincipal) => {
        const store = memoryStore();
        const hooks = resources();
        const entered = gate();
        const dying = await start(
          {
            mode,
            maxPerPrincipal,
            onCreate(session) {
              hooks.onCreate(session);
              entered.open();
              return new Promise(() => undefined);
            },
            onEnd: hooks.onEnd,
          },
          store,
        );
        void dying.client.request(at.method.create);
        await entered.opened;
        await dying.valise.close();
        const living = await start({ mode, maxPerPrincipal, onEnd: hooks.onEnd }, store);
        const other = await living.client.create();
        await vi.advanceTimersByTimeAsync(200_000);
        expect(hooks.log).toHaveLength(1);
        await vi.advanceTimersByTimeAsync(200_000);
        expect(hooks.log[1]).toMatch(maxPerPrincipal === 1 ? /^evicted / : /^expired /);
        await vi.advanceTimersByTimeAsync(400_000);
        expect(hooks.log).toHaveLength(2);
        expect(hooks.held.size).toBe(0);
        expect(await listedBy(living)).toEqual([other.sessionId]);
        await living.valise.close();
      },
    );
  });
});

describe.each(['redis', 'postgres'] as const)('the cap over three instances with %s', (kind) => {
  describe.skipIf(!urls[kind])('parallel creation', () => {
    it.each(MODES)(
      '%s sessions that several instances create in parallel stay below the cap, and each begins and ends once',
      async (mode) => {
        const hooks = resources();
        const { onCreate, onEnd } = hooks;
        const name = uniqueName();
        const stores = await Promise.all([1, 2, 3].map(() => openStore(urls[kind] as string)));
        const [one, two, three] = await Promise.all(
          stores.map((store) => start({ mode, maxPerPrincipal: 5, onCreate, onEnd }, store, name)),
        );
        const instances = [one!, two!, three!] as const;
        for (let round = 0; round < 2; round++) await crowd(instances, 5, hooks);
        expectPaired(hooks.log);
        expect(hooks.held.size).toBe(0);
        for (const { valise } of instances) await valise.close();
        for (const store of stores) await store.close();
      },
    );
  });
});
