import type { EndedSession, NewSession, SessionsOptions } from 'mcp-valise/server';
import { memoryStore, type Store } from 'mcp-valise/store';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { cuttable } from './cuttable-store.ts';
import { resultOf } from './raw-client.ts';
import { connect, count, errorOf, makeServer, STAGES, type Stage, type Wire } from './sessions-tool.ts';

const HOUR = 3600_000;
const MATRIX = STAGES.flatMap((at) =>
  (['sealed', 'stored'] as const).map((mode) => ({ at, stage: at.stage, mode })),
);
const ann = () => ({ subject: 'ann' });

const open = async (
  at: Stage,
  sessions: SessionsOptions,
  store?: Store,
  principal: (() => { subject: string }) | undefined = ann,
) => {
  const made = makeServer(count, { store, sessions, principal });
  return { ...made, client: await connect(made.valise, at) };
};

describe.each(MATRIX)('the life of $mode sessions, on $stage', ({ at, mode }) => {
  const { code, sent, sessionIn } = at;
  beforeEach(() => void vi.useFakeTimers({ toFake: ['Date'] }));
  afterEach(() => void vi.useRealTimers());
  const pass = (time: number) => vi.setSystemTime(Date.now() + time);

  it('[S-11] the expiry of a session slides with its use, and every response states it', async () => {
    const { client } = await open(at, { mode, ttl: '4h' }, memoryStore());
    let session = await client.create();
    const until = (wire: Wire) => Date.parse(wire.expiresAt as string) - Date.now();
    expect(until(session)).toBe(4 * HOUR);
    for (let n = 1; n <= 10; n++) {
      pass(3 * HOUR);
      const used = await client.use(session);
      expect(used.value).toBe(n);
      session = used.session;
      expect(until(session)).toBe(4 * HOUR);
    }
    pass(4 * HOUR + 1);
    expect(errorOf(await client.in(session)).code).toBe(code.notFound);
  });

  it('the expiry of a session slides in steps, so that most calls do not write it', async () => {
    const { client } = await open(at, { mode, ttl: '4h' }, memoryStore());
    const session = await client.create();
    pass(HOUR / 4);
    const used = resultOf(await client.request('tools/list', { _meta: sent(session) }));
    expect(sessionIn(used)).toEqual({ sessionId: session.sessionId, expiresAt: session.expiresAt });
    pass(HOUR / 4);
    const later = resultOf(await client.request('tools/list', { _meta: sent(session) }));
    expect(Date.parse(sessionIn(later)?.expiresAt as string)).toBe(Date.now() + 4 * HOUR);
  });

  it('a call that changes nothing succeeds while the store accepts no writes, and the expiry is extended later', async () => {
    const { store, cut } = cuttable();
    const warnings: string[] = [];
    const { valise, client } = await open(at, { mode, ttl: '4h' }, store);
    valise.on('warning', ({ what }) => warnings.push(what));
    const session = await client.create();
    const expiry = async () => {
      const used = resultOf(await client.request('tools/list', { _meta: sent(session) }));
      return Date.parse(sessionIn(used)?.expiresAt as string) - Date.now();
    };
    pass(HOUR);
    Object.assign(cut, { off: true, writes: true });
    expect(await expiry()).toBe(3 * HOUR);
    expect(await expiry()).toBe(3 * HOUR);
    expect(warnings).toEqual([expect.stringContaining('The expiry of a session could not be extended')]);
    cut.off = false;
    expect(await expiry()).toBe(4 * HOUR);
  });

  it('the expiry of a session does not slide with lifetime: fixed', async () => {
    const { client } = await open(at, { mode, ttl: '4h', lifetime: 'fixed' }, memoryStore());
    let session = await client.create();
    pass(3 * HOUR);
    session = (await client.use(session)).session;
    expect(Date.parse(session.expiresAt as string) - Date.now()).toBe(HOUR);
    pass(HOUR + 1);
    expect(errorOf(await client.in(session)).code).toBe(code.notFound);
  });

  it.each([
    ['which is maxLifetime for a principal', ann, 48],
    ['which is one day for an anonymous caller', undefined, 24],
  ])('a session ends after its maximum lifetime however much it is used, %s', async (_, principal, hours) => {
    const made = makeServer(count, {
      store: memoryStore(),
      sessions: { mode, ttl: '4h', maxLifetime: '2d' },
      principal,
    });
    const client = await connect(made.valise, at);
    let session = await client.create();
    for (let hour = 3; hour < hours; hour += 3) {
      pass(3 * HOUR);
      session = (await client.use(session)).session;
    }
    pass(3 * HOUR + 1);
    expect(errorOf(await client.in(session)).code).toBe(code.notFound);
  });
});

describe.each(MATRIX)('the number of $mode sessions, on $stage', ({ at, mode }) => {
  const { method, code, sent } = at;
  it('one session too many ends the oldest session of its principal', async () => {
    const { client } = await open(at, { mode, maxPerPrincipal: 2 }, memoryStore());
    const [a, b, c] = [await client.create(), await client.create(), await client.create()];
    expect(errorOf(await client.in(a)).code).toBe(code.notFound);
    expect((await client.use(b)).value).toBe(1);
    expect((await client.use(c)).value).toBe(1);
    expect(resultOf(await client.request(method.list))['sessions']).toHaveLength(2);
  });

  it('one session too many is refused with whenFull: refuse', async () => {
    const { client } = await open(at, { mode, maxPerPrincipal: 2, whenFull: 'refuse' }, memoryStore());
    const [a] = [await client.create(), await client.create()];
    expect(errorOf(await client.request(method.create))).toMatchObject({
      code: -32600,
      data: { code: 'limit-reached' },
    });
    expect(errorOf(await client.request(method.fork, { _meta: sent(a) })).code).toBe(-32600);
    await client.request(method.delete, { _meta: sent(a) });
    expect((await client.use(await client.create())).value).toBe(1);
  });

  it('forks count toward the cap, and none ends the session that it was forked from', async () => {
    const { client } = await open(at, { mode, maxPerPrincipal: 2 }, memoryStore());
    const [parent, other] = [await client.create(), await client.create()];
    const { session, value } = await client.use(parent);
    expect(value).toBe(1);
    const fork = resultOf(await client.request(method.fork, { _meta: sent(session) }))['session'] as Wire;
    expect((await client.use(fork)).value).toBe(2);
    expect((await client.use(session)).value).toBe(2);
    expect(errorOf(await client.in(other)).code).toBe(code.notFound);
    const alone = await open(at, { mode, maxPerPrincipal: 1 }, memoryStore());
    const lone = await alone.client.create();
    expect(errorOf(await alone.client.request(method.fork, { _meta: sent(lone) }))).toMatchObject({
      code: -32600,
      data: { code: 'limit-reached' },
    });
    expect((await alone.client.use(lone)).value).toBe(1);
  });

  it('maxAnonymous: 0 refuses all anonymous sessions', async () => {
    const made = makeServer(count, { store: memoryStore(), sessions: { mode, maxAnonymous: 0 } });
    const client = await connect(made.valise, at);
    expect(errorOf(await client.request(method.create)).data).toEqual({ code: 'limit-reached' });
  });

  it('the cap holds if several instances create sessions in parallel', async () => {
    const store = memoryStore();
    const clients = await Promise.all(
      [1, 2, 3].map(
        async () => (await open(at, { mode, maxPerPrincipal: 5, whenFull: 'refuse' }, store)).client,
      ),
    );
    const all = await Promise.all(
      Array.from({ length: 30 }, (_, n) => clients[n % 3]!.request(method.create)),
    );
    expect(all.filter((response) => 'result' in response)).toHaveLength(5);
  });
});

describe.each(MATRIX)('hooks of $mode sessions, on $stage', ({ at, mode }) => {
  const { method, sent } = at;
  const hooked = async (store: Store | undefined, options: Partial<SessionsOptions> = {}) => {
    const begun: NewSession[] = [];
    const ended: EndedSession[] = [];
    const opened = await open(
      at,
      {
        mode,
        onCreate: (session) => void begun.push(session),
        onEnd: (session) => void ended.push(session),
        ...options,
      },
      store,
    );
    return { ...opened, begun, ended };
  };

  it.each([
    ['with a store', memoryStore],
    ['without a store', () => undefined],
  ])('onCreate and onEnd are called once for each session, %s', async (_, store) => {
    const { client, begun, ended, valise } = await hooked(store(), { maxPerPrincipal: 2 });
    const a = await client.create({ hints: { label: 'a' } });
    expect(begun).toMatchObject([{ id: a.sessionId, label: 'a', parent: undefined, implicit: false }]);
    const b = resultOf(await client.request(method.fork, { _meta: sent(a) }))['session'] as Wire;
    expect(begun[1]).toMatchObject({ id: b.sessionId, parent: a.sessionId });
    const c = await client.create();
    expect(ended).toMatchObject([{ id: a.sessionId, label: 'a', reason: 'evicted' }]);
    await client.request(method.delete, { _meta: sent(b) });
    expect(ended[1]).toMatchObject({ id: b.sessionId, reason: 'deleted' });
    await valise.sessions.revoke(c.sessionId);
    expect(ended[2]).toMatchObject({ id: c.sessionId, reason: 'revoked' });
    await valise.sessions.revoke(c.sessionId);
    expect(ended).toHaveLength(3);
    await valise.close();
  });

  it('onEnd is not called for a session that never existed, if that can be known', async () => {
    for (const store of [memoryStore(), undefined]) {
      const { valise, ended } = await hooked(store);
      // A sealed session proves itself: one that nobody here has heard of may be there all the same.
      expect(await valise.sessions.revoke('sess-unknown')).toBe(mode === 'sealed');
      expect(ended).toHaveLength(mode === 'sealed' ? 1 : 0);
      await valise.close();
    }
  });

  it('onCreate may set the first state, and may refuse the session', async () => {
    const { client, ended } = await hooked(memoryStore(), {
      onCreate(session) {
        if (session.label === 'no') throw new Error('No browser is free.');
        session.set('n', 41);
        session.namespace('prefs').set('language', 'en');
      },
    });
    expect((await client.use(await client.create())).value).toBe(42);
    const refused = errorOf(await client.request(method.create, { hints: { label: 'no' } }));
    expect(refused).toEqual({ code: -32603, message: 'No browser is free.' });
    expect(resultOf(await client.request(method.list))['sessions']).toHaveLength(1);
    expect(ended).toHaveLength(0);
  });

  describe('the passing of time', () => {
    beforeEach(() => void vi.useFakeTimers({ toFake: ['Date', 'setTimeout', 'clearTimeout'] }));
    afterEach(() => void vi.useRealTimers());
    /** Long enough for every instance to look at what is due, more than once. */
    const pass = () => vi.advanceTimersByTimeAsync(120_000);

    it('onEnd is called once over all instances for a session that expired', async () => {
      const store = memoryStore();
      const options = { ttl: 1 } as const;
      const [one, two] = [await hooked(store, options), await hooked(store, options)];
      const session = await one.client.create({ hints: { label: 'short' } });
      const used = await one.client.use(session);
      expect(used.value).toBe(1);
      await pass();
      for (const { client } of [one, two]) await client.in(used.session);
      await pass();
      const all = [...one.ended, ...two.ended];
      expect(all).toMatchObject([{ id: session.sessionId, label: 'short', reason: 'expired' }]);
      expect(all[0]?.get('n')).toBe(mode === 'stored' ? 1 : undefined);
      await one.valise.close();
      await two.valise.close();
    });

    it('another instance calls onEnd if the one that created the session is gone', async () => {
      const store = memoryStore();
      const one = await hooked(store, { ttl: 1 });
      const session = await one.client.create();
      await one.valise.close();
      const two = await hooked(store, { ttl: 1 });
      await pass();
      expect(two.ended.map(({ id }) => id)).toEqual([session.sessionId]);
      expect(one.ended).toHaveLength(0);
      await two.valise.close();
    });

    it('onEnd is not called for a session whose use extended its expiry', async () => {
      const { client, ended, valise } = await hooked(memoryStore(), { ttl: 2 });
      let kept = await client.create();
      const left = await client.create();
      for (let n = 0; n < 40; n++) {
        kept = (await client.use(kept)).session;
        await vi.advanceTimersByTimeAsync(100);
      }
      expect(ended.map(({ id }) => id)).toEqual([left.sessionId]);
      expect((await client.use(kept)).value).toBe(41);
      await valise.close();
    });
  });

  it('a failing onEnd is reported as a warning', async () => {
    const warnings: string[] = [];
    const made = makeServer(count, {
      store: memoryStore(),
      sessions: {
        mode,
        onEnd: () => {
          throw new Error('still busy');
        },
      },
      events: { warning: ({ what }) => warnings.push(what) },
    });
    const client = await connect(made.valise, at);
    const session = await client.create();
    expect(await client.request(method.delete, { _meta: sent(session) })).toMatchObject({ result: {} });
    expect(warnings.join()).toContain('still busy');
    await made.valise.close();
  });
});

describe('options', () => {
  it.each([
    [{ mode: 'both' as 'sealed' }, /sessions.mode is "both".*'sealed' or 'stored'/],
    [{ ttl: 'soon' }, /"soon" is not a duration/],
    [{ maxPerPrincipal: 0 }, /maxPerPrincipal is 0/],
  ])('the options %o are refused with advice', (sessions, message) => {
    expect(() => makeServer(count, { sessions })).toThrow(message);
  });

  it('the session API of a server without sessions says how to enable them', () => {
    expect(() => makeServer(count, { sessions: undefined })).toThrow(
      /no data-layer sessions.*option sessions/,
    );
  });
});
