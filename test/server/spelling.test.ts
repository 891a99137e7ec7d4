import { describe, expect, it } from 'vitest';
import { resultOf, textOf } from './raw-client.ts';
import { ALL_STAGES, connect, errorOf, makeServer, type Wire } from './sessions-tool.ts';

const [, v2Legacy, v2Modern] = ALL_STAGES;
const OUR_SESSION = 'dev.valise/session';
const SESSION = 'io.modelcontextprotocol/session';
const OUR_STATE = 'dev.valise/state';
const STATE = 'modelcontextprotocol.io/state/session';
const SERVER_STATE = 'modelcontextprotocol.io/state/server';
const DRAFTS = { state: {}, experimental: { sessions: {} } };
const OURS = { extensions: { 'dev.valise/state': {}, 'dev.valise/sessions': {} } };

/** A server whose tool takes a note in its session and counts its calls in the jar, and a client of it. */
async function open(at: (typeof ALL_STAGES)[number], capabilities: object, http = false) {
  const { valise } = makeServer(
    (session) => {
      const { session: jar, server } = valise.jar;
      jar.set('calls', Number(jar.get('calls') ?? 0) + 1);
      server.set('language', 'en');
      const notes = [...(session?.get<number[]>('notes') ?? []), 1];
      session?.set('notes', notes);
      return session && `Note ${notes.length} taken.`;
    },
    {
      sessions: { mode: 'sealed' },
      jar: { session: { calls: { plain: true } }, server: { language: { plain: true } } },
    },
  );
  return connect(valise, at, capabilities, { http });
}

/** The names of sessions and state among the keys of a `_meta`. */
function named(meta: object | undefined): string[] {
  const all = [OUR_SESSION, SESSION, OUR_STATE, STATE, SERVER_STATE];
  return Object.keys(meta ?? {})
    .filter((key) => all.includes(key))
    .sort();
}

describe.each([
  { over: 'stdio', http: false },
  { over: 'HTTP', http: true },
])('a client that uses the draft names on 2026-07-28, over $over', ({ http }) => {
  it.each([
    { what: 'announces them', capabilities: DRAFTS },
    { what: 'announces nothing, and uses them', capabilities: {} },
    { what: 'announces both, and uses them', capabilities: { ...DRAFTS, ...OURS } },
  ])(
    '[S-08] [S-24] a client that uses the draft names receives its new state under them ($what)',
    async ({ capabilities }) => {
      const client = await open(v2Modern, capabilities, http);
      let session = resultOf(await client.request('sessions/create'))['session'] as Wire;
      let jar: object = {};
      for (const n of [1, 2, 3]) {
        const { sessionId, state } = session;
        const _meta = { [SESSION]: { sessionId, state }, [STATE]: jar };
        const result = resultOf(await client.request('tools/call', { name: 'work', arguments: {}, _meta }));
        expect(textOf(result)).toBe(`"Note ${n} taken."`);
        expect(named(result._meta)).toEqual([SESSION, SERVER_STATE, STATE].sort());
        session = result._meta?.[SESSION] as Wire;
        jar = result._meta?.[STATE] as object;
        expect(session.sessionId).toBe(sessionId);
        expect(jar).toEqual({ calls: n });
      }
    },
  );

  it('[S-13] [S-24] [S-25] a client that uses the draft names receives the error codes of the drafts', async () => {
    const client = await open(v2Modern, DRAFTS, http);
    const call = (_meta: object) => client.request('tools/call', { name: 'gated', arguments: {}, _meta });
    expect(errorOf(await call({ [SESSION]: { sessionId: 'sess-invalid' } }))).toEqual({
      code: -32043,
      message: 'Session not found',
      data: { sessionId: 'sess-invalid' },
    });
    expect(errorOf(await call({}))).toEqual({ code: -32044, message: 'Session required' });
    for (const method of ['sessions/delete', 'sessions/resume', 'sessions/recover', 'messages/listen']) {
      const params = { _meta: { [SESSION]: { sessionId: 'sess-invalid' } } };
      expect(errorOf(await client.request(method, params)).code).toBe(-32043);
    }
  });

  it('[J-02] [J-03] [S-24] a client that announced the draft names receives state under them from the first call on', async () => {
    const client = await open(v2Modern, DRAFTS, http);
    expect(named(await client.call('work').then(({ _meta }) => _meta))).toEqual([SERVER_STATE, STATE]);
  });
});

describe('the spelling of a response', () => {
  it('the spelling of a response is chosen separately for the jar and for sessions', async () => {
    const client = await open(v2Modern, OURS);
    const session = resultOf(await client.request('sessions/create'))['session'] as Wire;
    const own = { [SESSION]: { sessionId: session.sessionId, state: session.state } };
    const result = await client.call('work', {}, { ...own, [OUR_STATE]: { session: { calls: 4 } } });
    expect(named(result._meta)).toEqual([OUR_STATE, SESSION].sort());
    expect(result._meta?.[OUR_STATE]).toMatchObject({ session: { calls: 5 } });
  });

  it('the spelling of a response is the announced one if a request uses both spellings', async () => {
    const client = await open(v2Modern, DRAFTS);
    const session = resultOf(await client.request('sessions/create'))['session'] as Wire;
    const { sessionId, state } = session;
    const both = { [SESSION]: { sessionId, state }, [OUR_SESSION]: { sessionId, state } };
    const result = await client.call('work', {}, { ...both, [STATE]: { calls: 1 }, [OUR_STATE]: {} });
    expect(named(result._meta)).toEqual(expect.arrayContaining([SESSION, STATE]));
    expect(named(result._meta)).not.toEqual(expect.arrayContaining([OUR_SESSION]));
    expect(named(result._meta)).not.toEqual(expect.arrayContaining([OUR_STATE]));
    // The method says it first: what it is called by, its error has the code of.
    const missing = { _meta: { [OUR_SESSION]: { sessionId: 'sess-invalid' } } };
    expect(errorOf(await client.request('sessions/delete', missing)).code).toBe(-32043);
    expect(errorOf(await client.request('dev.valise/sessions/delete', missing)).code).toBe(-31043);
  });

  it('the default spelling is ours on 2026-07-28 and that of the drafts before', async () => {
    for (const [at, code] of [
      [v2Modern, -31044],
      [v2Legacy, -32044],
    ] as const) {
      const client = await open(at, { experimental: { 'dev.valise/sessions': {} } });
      expect(errorOf(await client.request('tools/call', { name: 'gated', arguments: {} })).code).toBe(code);
    }
  });

  it('a client before 2026-07-28 that uses our names receives our names', async () => {
    const client = await open(v2Legacy, DRAFTS);
    const { session } = resultOf(await client.request('dev.valise/sessions/create')) as unknown as {
      session: Wire;
    };
    const { sessionId, state } = session;
    const result = await client.call('work', {}, { [OUR_SESSION]: { sessionId, state }, [OUR_STATE]: {} });
    expect(named(result._meta)).toEqual([OUR_SESSION, OUR_STATE].sort());
    const gone = { [OUR_SESSION]: { sessionId: 'sess-invalid' } };
    const refused = await client.request('tools/call', { name: 'work', arguments: {}, _meta: gone });
    expect(errorOf(refused).code).toBe(-31043);
  });
});
