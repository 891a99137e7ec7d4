import { memoryStore } from 'mcp-valise/store';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { resultOf, textOf } from './raw-client.ts';
import {
  ALL_STAGES,
  connect,
  count,
  errorOf,
  makeServer,
  SEQ,
  type Stage,
  type Wire,
} from './sessions-tool.ts';

const MODES = [
  { mode: 'sealed', where: 'no store', store: () => undefined },
  { mode: 'sealed', where: 'a store', store: memoryStore },
  { mode: 'stored', where: 'a store', store: memoryStore },
] as const;

const MATRIX = ALL_STAGES.flatMap((at) => MODES.map((mode) => ({ ...mode, at, stage: at.stage })));

describe.each(MATRIX)('$mode sessions with $where, on $stage', ({ mode, store, at }) => {
  const { era, isOurs, key, method, code, complete, sent, sessionIn, unknown, required } = at;
  const open = async (does = count, capabilities: object = at.announces) => {
    const made = makeServer(does, { store: store(), sessions: { mode } });
    return { ...made, client: await connect(made.valise, at, capabilities) };
  };

  it('[S-01] the server announces sessions', async () => {
    const { client } = await open();
    expect(client.initialized['capabilities']).toMatchObject({
      sessions: {},
      extensions: { 'dev.valise/sessions': {} },
    });
  });

  it('[S-04] [S-16] [S-17] a new session has an id, a state and an expiry', async () => {
    const { client } = await open();
    const response = await client.request(method.create);
    expect(response).toEqual({
      jsonrpc: '2.0',
      id: expect.any(Number),
      result: {
        ...complete,
        ...(isOurs && { _meta: { [SEQ]: 0 } }),
        session: {
          sessionId: expect.stringMatching(/^sess-[\w-]{24}$/),
          state: expect.any(String),
          expiresAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
        },
      },
    });
  });

  it('[S-16] [S-17] session ids are unique, random at every position, and of visible ASCII', async () => {
    const clients = [(await open()).client, (await open()).client];
    const ids: string[] = [];
    for (let n = 0; n < 60; n++) ids.push((await clients[n % 2]!.create()).sessionId);
    expect(new Set(ids).size).toBe(60);
    for (const id of ids) expect(id).toMatch(/^[!-~]+$/);
    // Each of 24 places takes one of 64 letters: 144 bits.
    for (let place = 'sess-'.length; place < 'sess-'.length + 24; place++)
      expect(new Set(ids.map((id) => id[place])).size).toBeGreaterThan(10);
  });

  it('[S-03] a session cannot be created inside another session', async () => {
    const { client } = await open();
    const session = await client.create();
    const error = errorOf(await client.request(method.create, { _meta: sent(session) }));
    expect(error).toMatchObject({ code: -32602 });
    // Not even inside one that is unknown: what is wrong is that there is one.
    const gone = sent({ sessionId: 'sess-none' });
    expect(errorOf(await client.request(method.create, { _meta: gone })).code).toBe(-32602);
  });

  it('[S-07] [S-08] [S-09] a call runs in the session that it names, and the response names the same one', async () => {
    const { client } = await open();
    const [a, b] = [await client.create(), await client.create()];
    const result = resultOf(await client.in(a));
    expect(textOf(result)).toBe('1');
    expect(sessionIn(result)).toEqual({
      sessionId: a.sessionId,
      state: expect.any(String),
      expiresAt: expect.any(String),
    });
    const { state } = sessionIn(result) as Wire;
    if (mode === 'sealed') expect(state).not.toBe(a.state);
    expect((await client.use({ ...a, state: state as string })).value).toBe(2);
    expect((await client.use(b)).value).toBe(1);
  });

  it('[S-10] a response does not repeat a state that has not changed', async () => {
    const { client } = await open((session) => session?.get('n') ?? null);
    const session = await client.create();
    const result = resultOf(await client.in(session));
    expect(sessionIn(result)).toEqual({ sessionId: session.sessionId, expiresAt: session.expiresAt });
  });

  it('session.get with a schema returns what the schema reads, or undefined if the value does not fit', async () => {
    const { client } = await open((session) => {
      session?.set('n', 3);
      const doubled = z.number().transform((n) => n * 2);
      return [session?.get('n', doubled) ?? null, session?.get('n', z.string()) ?? null];
    });
    expect(textOf(resultOf(await client.in(await client.create())))).toBe('[6,null]');
  });

  it('[S-21] only clients that know Valise’s names receive the sequence number of the state', async () => {
    const ours = await open(count, { extensions: { 'dev.valise/sessions': {} } });
    const created = resultOf(await ours.client.request(method.create));
    expect(created._meta).toEqual({ [SEQ]: 0 });
    const session = created['session'] as { sessionId: string; state: string };
    const used = resultOf(await ours.client.in(session));
    expect(used._meta).toMatchObject({ [key]: { sessionId: session.sessionId }, [SEQ]: 1 });
    // Under our names the whole family is ours, so everybody who knows it knows the number too.
    const { client } = await open();
    const drafts = await client.create();
    expect(resultOf(await client.in(drafts))._meta?.[SEQ]).toBe(isOurs ? 1 : undefined);
  });

  it('[S-12] [S-13] a deleted session is unknown', async () => {
    const { client, ran } = await open();
    const session = await client.create();
    expect(await client.request(method.delete, { _meta: sent({ sessionId: session.sessionId }) })).toEqual({
      jsonrpc: '2.0',
      id: expect.any(Number),
      result: { ...complete },
    });
    expect(errorOf(await client.in(session))).toEqual(unknown(session));
    expect(ran()).toBe(0);
    expect(errorOf(await client.request(method.delete, { _meta: sent(session) })).code).toBe(code.notFound);
  });

  it('session state that a tool set before it threw is saved, because the SDKs respond with a result', async () => {
    const { client } = await open((session, { fail }) => {
      if (!fail) return session?.get('n');
      session?.set('n', 7);
      throw new Error('no');
    });
    const session = await client.create();
    const failed = resultOf(await client.in(session, 'work', { fail: true }));
    expect(failed['isError']).toBe(true);
    expect((await client.use({ ...session, ...sessionIn(failed) })).value).toBe(7);
  });

  it('[S-15] the server can revoke a session inside and outside of a handler', async () => {
    const { client, valise } = await open((session, { end }) => (end ? session?.revoke() : 'on'));
    const [a, b] = [await client.create(), await client.create()];
    const ended = resultOf(await client.in(a, 'work', { end: true }));
    expect(sessionIn(ended)).toMatchObject({ sessionId: a.sessionId });
    expect(errorOf(await client.in(a)).code).toBe(code.notFound);
    expect((await client.use(b)).value).toBe('on');
    expect(await valise.sessions.revoke(b.sessionId)).toBe(true);
    expect(errorOf(await client.in(b)).code).toBe(code.notFound);
    expect(await valise.sessions.revoke(b.sessionId)).toBe(false);
  });

  it('[S-22] the session is checked on every request, even if none is required', async () => {
    const { client, ran } = await open();
    const gone = { sessionId: 'sess-invalid' };
    for (const [asked, params] of [
      // The newer era has no ping.
      ...(era === 'legacy' ? [['ping', {}] as const] : []),
      ['tools/list', {}],
      ['tools/call', { name: 'work', arguments: {} }],
    ] as const) {
      const error = errorOf(await client.request(asked, { ...params, _meta: sent(gone) }));
      expect(error).toEqual(unknown(gone));
    }
    expect(ran()).toBe(0);
    const session = await client.create();
    const listed = resultOf(await client.request('tools/list', { _meta: sent(session) }));
    expect(sessionIn(listed)).toMatchObject({ sessionId: session.sessionId });
  });

  it('[S-22] [S-25] an operation that requires a session does not run without one', async () => {
    const { client, ran } = await open();
    const error = errorOf(await client.request('tools/call', { name: 'gated', arguments: {} }));
    expect(error).toEqual(required);
    expect(ran()).toBe(0);
    expect((await client.use(await client.create(), {}, 'gated')).value).toBe(1);
    expect(textOf(await client.call('work'))).toBe('1');
  });

  it.each([
    ['an id that is not text', { sessionId: 7 }],
    ['a space in the id', { sessionId: 'sess a' }],
    ['a letter that is not ASCII', { sessionId: 'séss' }],
    ['the character before the first visible one', { sessionId: 'sess\x1f' }],
    ['the character after the last visible one', { sessionId: 'sess\x7f' }],
    ['an empty id', { sessionId: '' }],
    ['no id', {}],
    ['text in place of an object', 'sess-1'],
    ['a state that is not text', { sessionId: 'sess-1', state: {} }],
  ])('[S-16] a session with %s is refused with -32602', async (_, session) => {
    const { client, ran } = await open();
    const params = { name: 'work', arguments: {}, _meta: { [key]: session } };
    expect(errorOf(await client.request('tools/call', params)).code).toBe(-32602);
    expect(ran()).toBe(0);
  });

  it('[S-16] an unknown id of visible ASCII is answered with session not found', async () => {
    const { client } = await open();
    const all = String.fromCharCode(...Array.from({ length: 0x7e - 0x20 }, (_, n) => 0x21 + n));
    expect(errorOf(await client.in({ sessionId: all }))).toEqual(unknown({ sessionId: all }));
  });

  it('[S-31] namespaces of a session are separate', async () => {
    const { client } = await open((session, { ns, value }) => {
      const values = ns === undefined ? session : session?.namespace(ns as string);
      if (value !== undefined) values?.set('language', value as string);
      return [
        session?.get('language') ?? null,
        session?.namespace('prefs').get('language') ?? null,
        values?.keys(),
      ];
    });
    let { session } = await client.use(await client.create(), { value: 'en' });
    ({ session } = await client.use(session, { ns: 'prefs', value: 'de' }));
    ({ session } = await client.use(session, { ns: '__proto__', value: 'xx' }));
    expect((await client.use(session)).value).toEqual(['en', 'de', ['language']]);
    expect((await client.use(session, { ns: '__proto__' })).value).toEqual(['en', 'de', ['language']]);
  });

  it('[S-26] sessions are listed with their labels, and only to their owner', async () => {
    const made = makeServer(count, { store: store(), sessions: { mode }, principal: who });
    const [ann, bob] = [await as('ann', made, at), await as('bob', made, at)];
    const a = await ann.create({ hints: { label: 'refactor' } });
    const b = await ann.create();
    await bob.create();
    const listed = resultOf(await ann.request(method.list));
    expect(listed).toEqual({
      ...complete,
      sessions: [
        { sessionId: a.sessionId, expiresAt: a.expiresAt, label: 'refactor' },
        { sessionId: b.sessionId, expiresAt: b.expiresAt },
      ],
    });
    expect(resultOf(await bob.request(method.list))['sessions']).toHaveLength(1);
    await ann.request(method.delete, { _meta: sent(a) });
    expect(resultOf(await ann.request(method.list))['sessions']).toHaveLength(1);
  });

  it('[S-26] sessions are listed in pages', async () => {
    const { client } = await open();
    const ids = [];
    for (let n = 0; n < 60; n++) ids.push((await client.create()).sessionId);
    const first = resultOf(await client.request(method.list));
    expect(first['sessions']).toHaveLength(50);
    const second = resultOf(await client.request(method.list, { cursor: first['nextCursor'] }));
    expect(second['nextCursor']).toBeUndefined();
    const listed = [
      ...(first['sessions'] as { sessionId: string }[]),
      ...(second['sessions'] as { sessionId: string }[]),
    ];
    expect(listed.map(({ sessionId }) => sessionId).sort()).toEqual(ids.sort());
    expect(errorOf(await client.request(method.list, { cursor: 'nonsense' })).code).toBe(-32602);
  });

  it('[S-26] a session is resumed with its state, and forked with a copy of it', async () => {
    const { client } = await open();
    const used = (await client.use((await client.use(await client.create())).session)).session;
    const resumed = resultOf(await client.request(method.resume, { _meta: sent(used) }))[
      'session'
    ] as typeof used;
    expect(resumed).toMatchObject({ sessionId: used.sessionId, state: expect.any(String) });
    const forked = resultOf(
      await client.request(method.fork, { hints: { label: 'sub' }, _meta: sent(resumed) }),
    )['session'] as typeof used;
    expect(forked.sessionId).not.toBe(used.sessionId);
    expect((await client.use(forked)).value).toBe(3);
    expect((await client.use(resumed)).value).toBe(3);
    const gone = { _meta: sent({ sessionId: 'sess-none', state: 'x' }) };
    expect(errorOf(await client.request(method.resume, gone)).code).toBe(code.notFound);
    expect(errorOf(await client.request(method.fork, gone)).code).toBe(code.notFound);
  });

  it('[S-26] a stored session is recovered from the server’s record if its state is lost or refused', async () => {
    const { client, ran } = await open();
    const used = (await client.use(await client.create())).session;
    const { sessionId } = used;
    const recover = (session: Wire) => client.request(method.recover, { _meta: sent(session) });
    const whole = resultOf(await recover(used))['session'] as Wire;
    expect(whole).toMatchObject({ sessionId, state: expect.any(String), expiresAt: expect.any(String) });
    expect((await client.use(whole)).value).toBe(2);
    for (const lost of [{ sessionId }, { sessionId, state: `${used.state}A` }, { sessionId, state: 'x' }]) {
      const response = await recover(lost);
      // What only the client had, nobody can bring back.
      if (mode === 'sealed') expect(errorOf(response)).toEqual(unknown(used));
      else {
        const back = resultOf(response)['session'] as Wire;
        expect(back).toMatchObject({ sessionId, state: expect.any(String) });
        const { value } = await client.use(back);
        expect(value).toBe(ran());
      }
    }
    expect(errorOf(await recover({ sessionId: 'sess-none' })).code).toBe(code.notFound);
    await client.request(method.delete, { _meta: sent(whole) });
    expect(errorOf(await recover(used))).toEqual(unknown(used));
  });

  it('[S-37] only _meta names the session: a parameter called session belongs to the author', async () => {
    const { client, ran } = await open((session) => session?.id);
    const session = await client.create();
    const call = (name: string, more: object) =>
      client.request('tools/call', { name, arguments: {}, session: { ...session }, ...more });
    expect(errorOf(await call('gated', {}))).toMatchObject({ message: 'Session required' });
    expect(ran()).toBe(0);
    const other = await client.create();
    const result = resultOf(await call('gated', { _meta: sent(other) }));
    expect(JSON.parse(textOf(result))).toBe(other.sessionId);
    expect(sessionIn(result)?.sessionId).toBe(other.sessionId);
  });

  it('session state that was set before a JSON-RPC error is discarded', async () => {
    const { client } = await open(count);
    const session = await client.create();
    const params = { name: 'nothing-of-this-name', arguments: {}, _meta: sent(session) };
    await client.request('tools/call', params);
    expect((await client.use(session)).value).toBe(1);
  });
});

let current: string;
const who = () => ({ subject: current });

/** A client whose every request is asked as somebody. */
async function as(subject: string, { valise }: ReturnType<typeof makeServer>, stage: Stage) {
  current = subject;
  const client = await connect(valise, stage);
  const request: typeof client.request = (method, params) => {
    current = subject;
    return client.request(method, params);
  };
  return {
    ...client,
    request,
    create: async (params?: object) =>
      resultOf(await request(stage.method.create, params))['session'] as Wire,
  };
}
