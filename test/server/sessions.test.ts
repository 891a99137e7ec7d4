import { memoryStore } from 'mcp-valise/store';
import { describe, expect, it } from 'vitest';
import { MAJORS } from './majors.ts';
import { resultOf, textOf } from './raw-client.ts';
import {
  connect,
  count,
  errorOf,
  makeServer,
  SEQ,
  SESSION,
  SESSIONS,
  sent,
  sessionIn,
} from './sessions-tool.ts';

const MODES = [
  { mode: 'sealed', where: 'no store', store: () => undefined },
  { mode: 'sealed', where: 'a store', store: memoryStore },
  { mode: 'stored', where: 'a store', store: memoryStore },
] as const;

const MATRIX = MAJORS.flatMap((major) => MODES.map((mode) => ({ ...mode, major, version: major.major })));

describe.each(MATRIX)('$mode sessions with $where, on an SDK $version server', ({ mode, store, major }) => {
  const open = async (does = count, capabilities: object = SESSIONS) => {
    const made = makeServer(does, { store: store(), sessions: { mode } });
    return { ...made, client: await connect(made.valise, capabilities, major) };
  };

  it('[S-01] are announced', async () => {
    const { client } = await open();
    expect(client.initialized['capabilities']).toMatchObject({
      sessions: {},
      extensions: { 'dev.valise/sessions': {} },
    });
  });

  it('[S-04] [S-16] [S-17] begin with an id, a state and a time', async () => {
    const { client } = await open();
    const response = await client.request('sessions/create');
    expect(response).toEqual({
      jsonrpc: '2.0',
      id: expect.any(Number),
      result: {
        session: {
          sessionId: expect.stringMatching(/^sess-[\w-]{24}$/),
          state: expect.any(String),
          expiresAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
        },
      },
    });
  });

  it('[S-03] are not made inside another session', async () => {
    const { client } = await open();
    const session = await client.create();
    const error = errorOf(await client.request('sessions/create', { _meta: sent(session) }));
    expect(error).toMatchObject({ code: -32602 });
  });

  it('[S-07] [S-08] [S-09] are the context of a call, and the answer names exactly them', async () => {
    const { client } = await open();
    const [a, b] = [await client.create(), await client.create()];
    const first = await client.use(a);
    expect(first.value).toBe(1);
    expect(first.session.sessionId).toBe(a.sessionId);
    expect(first.session.state).toEqual(expect.any(String));
    expect((await client.use(first.session)).value).toBe(2);
    expect((await client.use(b)).value).toBe(1);
  });

  it('[S-10] say nothing of a state that has not changed', async () => {
    const { client } = await open((session) => session?.get('n') ?? null);
    const session = await client.create();
    const result = resultOf(await client.in(session));
    expect(sessionIn(result)).toEqual({ sessionId: session.sessionId, expiresAt: session.expiresAt });
  });

  it('[S-21] tell the number of their state to clients that know of it, and to no other', async () => {
    const ours = await open(count, { extensions: { 'dev.valise/sessions': {} } });
    const created = resultOf(await ours.client.request('sessions/create'));
    expect(created._meta).toEqual({ [SEQ]: 0 });
    const session = created['session'] as { sessionId: string; state: string };
    const used = resultOf(await ours.client.in(session));
    expect(used._meta).toEqual({ [SESSION]: expect.anything(), [SEQ]: 1 });
    const { client } = await open();
    const drafts = await client.create();
    expect(Object.keys(resultOf(await client.in(drafts))._meta ?? {})).toEqual([SESSION]);
  });

  it('[S-12] [S-13] are deleted, and then unknown', async () => {
    const { client, ran } = await open();
    const session = await client.create();
    expect(
      await client.request('sessions/delete', { _meta: sent({ sessionId: session.sessionId }) }),
    ).toEqual({
      jsonrpc: '2.0',
      id: expect.any(Number),
      result: {},
    });
    expect(errorOf(await client.in(session))).toEqual({
      code: -32043,
      message: 'Session not found',
      data: { sessionId: session.sessionId },
    });
    expect(ran()).toBe(0);
    expect(errorOf(await client.request('sessions/delete', { _meta: sent(session) })).code).toBe(-32043);
  });

  it('[S-15] are taken back by the server, from within and from outside', async () => {
    const { client, valise } = await open((session, { end }) => (end ? session?.revoke() : 'on'));
    const [a, b] = [await client.create(), await client.create()];
    const ended = resultOf(await client.in(a, 'work', { end: true }));
    expect(sessionIn(ended)).toMatchObject({ sessionId: a.sessionId });
    expect(errorOf(await client.in(a)).code).toBe(-32043);
    expect((await client.use(b)).value).toBe('on');
    expect(await valise.sessions.revoke(b.sessionId)).toBe(true);
    expect(errorOf(await client.in(b)).code).toBe(-32043);
    expect(await valise.sessions.revoke(b.sessionId)).toBe(false);
  });

  it('[S-22] are looked at on every request, also where none is needed', async () => {
    const { client, ran } = await open();
    const gone = { sessionId: 'sess-invalid' };
    for (const [method, params] of [
      ['ping', {}],
      ['tools/list', {}],
      ['tools/call', { name: 'work', arguments: {} }],
    ] as const) {
      const error = errorOf(await client.request(method, { ...params, _meta: sent(gone) }));
      expect(error).toEqual({ code: -32043, message: 'Session not found', data: gone });
    }
    expect(ran()).toBe(0);
    const session = await client.create();
    const listed = resultOf(await client.request('tools/list', { _meta: sent(session) }));
    expect(sessionIn(listed)).toMatchObject({ sessionId: session.sessionId });
  });

  it('[S-22] [S-25] gate operations: no session, no handler', async () => {
    const { client, ran } = await open();
    const error = errorOf(await client.request('tools/call', { name: 'gated', arguments: {} }));
    expect(error).toEqual({ code: -32044, message: 'Session required' });
    expect(ran()).toBe(0);
    expect((await client.use(await client.create(), {}, 'gated')).value).toBe(1);
    expect(textOf(await client.call('work'))).toBe('1');
  });

  it.each([
    ['an id that is no text', { sessionId: 7 }],
    ['a space in the id', { sessionId: 'sess a' }],
    ['a letter that is not ASCII', { sessionId: 'séss' }],
    ['an empty id', { sessionId: '' }],
    ['no id', {}],
    ['no object', 'sess-1'],
    ['a state that is no text', { sessionId: 'sess-1', state: {} }],
  ])('[S-16] refuse %s with -32602', async (_, session) => {
    const { client, ran } = await open();
    const params = { name: 'work', arguments: {}, _meta: { [SESSION]: session } };
    expect(errorOf(await client.request('tools/call', params)).code).toBe(-32602);
    expect(ran()).toBe(0);
  });

  it('[S-31] keep namespaces apart', async () => {
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

  it('[S-26] are listed with their labels, and only to their owner', async () => {
    const made = makeServer(count, { store: store(), sessions: { mode }, principal: who });
    const [ann, bob] = [await as('ann', made), await as('bob', made)];
    const a = await ann.create({ hints: { label: 'refactor' } });
    const b = await ann.create();
    await bob.create();
    const listed = resultOf(await ann.request('sessions/list'));
    expect(listed).toEqual({
      sessions: [
        { sessionId: a.sessionId, expiresAt: a.expiresAt, label: 'refactor' },
        { sessionId: b.sessionId, expiresAt: b.expiresAt },
      ],
    });
    expect(resultOf(await bob.request('sessions/list'))['sessions']).toHaveLength(1);
    await ann.request('sessions/delete', { _meta: sent(a) });
    expect(resultOf(await ann.request('sessions/list'))['sessions']).toHaveLength(1);
  });

  it('[S-26] are listed in pages', async () => {
    const { client } = await open();
    const ids = [];
    for (let n = 0; n < 60; n++) ids.push((await client.create()).sessionId);
    const first = resultOf(await client.request('sessions/list'));
    expect(first['sessions']).toHaveLength(50);
    const second = resultOf(await client.request('sessions/list', { cursor: first['nextCursor'] }));
    expect(second['nextCursor']).toBeUndefined();
    const listed = [
      ...(first['sessions'] as { sessionId: string }[]),
      ...(second['sessions'] as { sessionId: string }[]),
    ];
    expect(listed.map(({ sessionId }) => sessionId).sort()).toEqual(ids.sort());
    expect(errorOf(await client.request('sessions/list', { cursor: 'nonsense' })).code).toBe(-32602);
  });

  it('[S-26] are resumed with their state, and forked with a copy of it', async () => {
    const { client } = await open();
    const used = (await client.use((await client.use(await client.create())).session)).session;
    const resumed = resultOf(await client.request('sessions/resume', { _meta: sent(used) }))[
      'session'
    ] as typeof used;
    expect(resumed).toMatchObject({ sessionId: used.sessionId, state: expect.any(String) });
    const forked = resultOf(
      await client.request('sessions/fork', { hints: { label: 'sub' }, _meta: sent(resumed) }),
    )['session'] as typeof used;
    expect(forked.sessionId).not.toBe(used.sessionId);
    expect((await client.use(forked)).value).toBe(3);
    expect((await client.use(resumed)).value).toBe(3);
    const gone = { _meta: sent({ sessionId: 'sess-none', state: 'x' }) };
    expect(errorOf(await client.request('sessions/resume', gone)).code).toBe(-32043);
    expect(errorOf(await client.request('sessions/fork', gone)).code).toBe(-32043);
  });

  it('forget what was set before an error', async () => {
    const { client } = await open(count);
    const session = await client.create();
    const params = { name: 'nothing-of-this-name', arguments: {}, _meta: sent(session) };
    await client.request('tools/call', params);
    expect((await client.use(session)).value).toBe(1);
  });
});

const users = new WeakMap<object, string>();
let current: string;
const who = () => ({ subject: current });

/** A client whose every request is asked as somebody. */
async function as(subject: string, { valise }: ReturnType<typeof makeServer>) {
  current = subject;
  const client = await connect(valise);
  users.set(client, subject);
  const request: typeof client.request = (method, params) => {
    current = subject;
    return client.request(method, params);
  };
  return {
    ...client,
    request,
    create: async (params?: object) =>
      resultOf(await request('sessions/create', params))['session'] as never as {
        sessionId: string;
        state: string;
        expiresAt: string;
      },
  };
}
