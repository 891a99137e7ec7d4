import {
  type ClientEvents,
  type ClientValise,
  openValise,
  SessionGoneError,
  type Store,
} from 'mcp-valise/client';
import { memoryStore } from 'mcp-valise/store';
import { NAMES } from 'mcp-valise/wire';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { openSessionHost, type SessionHost, SPELLED, saying, sessionOf } from './sessions-host.ts';

const NOTES = 'https://notes.example.com/mcp';
const tool = (name = 'work') => ({ name, arguments: {} });

let store: Store;
let valise: ClientValise;
let host: SessionHost;
afterEach(async () => {
  await valise.close();
  await host.close();
});

describe.each(SPELLED)('sessions of a client of kind $kind', (kind) => {
  const { era, spelling } = kind;
  const names = NAMES[spelling];
  beforeEach(async () => {
    host = await openSessionHost(kind);
    store = memoryStore();
    valise = await openValise({ store });
  });
  const open = () => host.connect(valise, NOTES);

  it('[S-02] A client announces sessions', async () => {
    const client = await open();
    await client.listTools();
    const capabilities =
      era === 'legacy'
        ? host.last('initialize').params['capabilities']
        : host.last('tools/list').meta['io.modelcontextprotocol/clientCapabilities'];
    // On 2026-07-28 a server that knows our names is told nothing twice.
    expect(capabilities).toMatchObject({
      ...(spelling === 'legacy' && { experimental: { sessions: {}, 'dev.valise/sessions': {} } }),
      extensions: { 'dev.valise/sessions': {} },
    });
  });

  it('[S-03] [S-04] sessions.create() sends no session metadata, even inside a session', async () => {
    const client = await open();
    const session = await valise.sessions(client).create();
    expect(session).toMatchObject({ id: 'sess-1', isGone: false, isStale: false });
    expect(session.expiresAt).toEqual(new Date('2099-01-01T00:00:00Z'));
    const inner = await session.run(() => valise.sessions(client).create({ label: 'inner' }));
    const { method, meta, params } = host.last();
    expect(method).toBe(names.method.create);
    expect(sessionOf(meta)).toBeUndefined();
    expect(params['hints']).toEqual({ label: 'inner' });
    expect(inner.label).toBe('inner');
  });

  it('[S-06] [S-07] [S-18] Every request inside session.run() carries the session, and no request outside does', async () => {
    const client = await open();
    const session = await valise.sessions(client).create();
    const deep = async () => {
      await new Promise((resolve) => setTimeout(resolve, 1));
      return client.callTool(tool());
    };
    await session.run(async () => {
      await deep();
      await client.listTools();
    });
    expect(sessionOf(host.last('tools/call').meta)).toEqual({ sessionId: 'sess-1', state: 'sess-1:0' });
    expect(sessionOf(host.last('tools/list').meta)).toEqual({ sessionId: 'sess-1', state: 'sess-1:0' });
    await client.callTool(tool());
    expect(sessionOf(host.last('tools/call').meta)).toBeUndefined();
  });

  it('[S-10] [S-18] A session sends back exactly the latest state, and a response without state changes nothing', async () => {
    const client = await open();
    const session = await valise.sessions(client).create();
    const call = () => session.run(() => client.callTool(tool()));
    const odd = ' a==é\n😀';
    host.answer = () => saying(spelling, { sessionId: 'sess-1', state: odd });
    await call();
    host.answer = () => saying(spelling, { sessionId: 'sess-1' });
    await call();
    expect(sessionOf(host.last().meta)?.state).toBe(odd);
    host.answer = () => ({});
    await call();
    await call();
    expect(sessionOf(host.last().meta)?.state).toBe(odd);
  });

  it('[S-11] A session takes a new expiresAt and never refuses a call because of it', async () => {
    const client = await open();
    const session = await valise.sessions(client).create();
    host.answer = () => saying(spelling, { sessionId: 'sess-1', expiresAt: '2001-01-01T00:00:00Z' });
    await session.run(() => client.callTool(tool()));
    expect([session.isStale, session.expiresAt?.getFullYear()]).toEqual([true, 2001]);
    await session.run(() => client.callTool(tool()));
    expect(sessionOf(host.last().meta)?.sessionId).toBe('sess-1');
  });

  it('[S-09] A client drops and reports the metadata of another session', async () => {
    const client = await open();
    const session = await valise.sessions(client).create();
    const refused: ClientEvents['session-refused'][] = [];
    valise.on('session-refused', (event) => refused.push(event));
    host.answer = () => saying(spelling, { sessionId: 'sess-2', state: 'theirs' });
    await session.run(() => client.callTool(tool()));
    await session.run(() => client.callTool(tool()));
    expect(sessionOf(host.last().meta)).toEqual({ sessionId: 'sess-1', state: 'sess-1:0' });
    expect(refused).toHaveLength(2);
    expect(refused[0]?.reason).toMatch(/another session/);
  });

  it('[S-21] By sequence number, an older response never overwrites a newer state', async () => {
    const client = await open();
    const session = await valise.sessions(client).create();
    const answers = gate();
    host.answer = async ({ params }) => {
      const { name } = params as { name: string };
      await answers.wait(name);
      const seq = Number(name);
      return saying(spelling, { sessionId: 'sess-1', state: `state-${seq}` }, seq);
    };
    const calls = ['3', '5', '4'].map((name) => session.run(() => client.callTool(tool(name))));
    for (const name of ['5', '3', '4']) {
      answers.open(name);
      await calls[['3', '5', '4'].indexOf(name)];
    }
    host.answer = () => ({});
    await session.run(() => client.callTool(tool()));
    expect(sessionOf(host.last().meta)?.state).toBe('state-5');
  });

  it('[S-21] Without a sequence number, the response to an earlier call never overwrites a newer state', async () => {
    const client = await open();
    const session = await valise.sessions(client).create();
    const answers = gate();
    host.answer = async ({ params }) => {
      const { name } = params as { name: string };
      await answers.wait(name);
      return saying(spelling, { sessionId: 'sess-1', state: `state-${name}` });
    };
    const first = session.run(() => client.callTool(tool('a')));
    const second = session.run(() => client.callTool(tool('b')));
    answers.open('b');
    await second;
    answers.open('a');
    await first;
    host.answer = () => ({});
    await session.run(() => client.callTool(tool()));
    expect(sessionOf(host.last().meta)?.state).toBe('state-b');
  });

  it('A serial session sends its calls one after another', async () => {
    const client = await open();
    const session = await valise.sessions(client).create({ ordering: 'serial' });
    let [running, most, n] = [0, 0, 0];
    host.answer = async () => {
      most = Math.max(most, ++running);
      await new Promise((resolve) => setTimeout(resolve, 5));
      running--;
      return saying(spelling, { sessionId: 'sess-1', state: `state-${++n}` });
    };
    await session.run(() => Promise.all([1, 2, 3, 4].map(() => client.callTool(tool()))));
    expect(most).toBe(1);
    const states = host.seen
      .filter(({ method }) => method === 'tools/call')
      .map(({ meta }) => sessionOf(meta)?.state);
    expect(states).toEqual(['sess-1:0', 'state-1', 'state-2', 'state-3']);
  });

  it('A call that nobody waits for does not delay the others of its serial session', async () => {
    const client = await open();
    const session = await valise.sessions(client).create({ ordering: 'serial' });
    host.answer = ({ params }) =>
      (params as { name: string }).name === 'never' ? new Promise(() => {}) : {};
    const soon = { timeout: 50 };
    const args = kind.major === 'v1' ? [undefined, soon] : [soon];
    const never = session.run(() => client.callTool(tool('never'), ...(args as never[])));
    const next = session.run(() => client.callTool(tool('next')));
    await expect(never).rejects.toThrow();
    await next;
    expect(host.last().params['name']).toBe('next');
  });

  it('A call that could not be delivered does not delay the others of its serial session', async () => {
    const client = await open();
    const session = await valise.sessions(client).create({ ordering: 'serial' });
    const { fetch } = host;
    await session.run(async () => {
      host.fetch = () => Promise.reject(new Error('refused'));
      await expect(client.callTool(tool('lost'))).rejects.toThrow('refused');
      host.fetch = fetch;
      await client.callTool(tool('next'));
    });
    expect(host.last().params['name']).toBe('next');
  });

  it('Concurrent sessions do not mix', async () => {
    const client = await open();
    const sessions = await Promise.all(Array.from({ length: 8 }, () => valise.sessions(client).create()));
    host.answer = ({ meta, params }) => {
      const { sessionId = '', state = '' } = sessionOf(meta) ?? {};
      expect((params as { name: string }).name).toBe(sessionId);
      return saying(spelling, { sessionId, state: `${state}+` });
    };
    await Promise.all(
      sessions.map((session) =>
        session.run(async () => {
          for (let n = 0; n < 5; n++) await client.callTool(tool(session.id));
        }),
      ),
    );
    host.answer = () => ({});
    for (const session of sessions) {
      await session.run(() => client.callTool(tool()));
      expect(sessionOf(host.last().meta)).toEqual({ sessionId: session.id, state: `${session.id}:0+++++` });
    }
  });

  it('[S-12] A deleted session is never sent again', async () => {
    const client = await open();
    const session = await valise.sessions(client).create();
    await session.delete();
    expect(host.last().method).toBe(names.method.delete);
    expect(sessionOf(host.last().meta)?.sessionId).toBe('sess-1');
    expect(session.isGone).toBe(true);
    const { length } = host.seen;
    await expect(session.run(() => client.callTool(tool()))).rejects.toThrow(SessionGoneError);
    await session.delete();
    await expect(session.fork()).rejects.toThrow(SessionGoneError);
    expect(host.seen).toHaveLength(length);
  });

  it('[S-13] [S-14] A session that the server does not know is gone for good, with a typed error', async () => {
    const client = await open();
    const session = await valise.sessions(client).create({ label: 'refactor' });
    const ended: ClientEvents['session-ended'][] = [];
    valise.on('session-ended', (event) => ended.push(event));
    host.known.clear();
    const error = await session.run(() => client.callTool(tool())).catch((error: unknown) => error);
    expect(error).toBeInstanceOf(SessionGoneError);
    expect(error).toMatchObject({ code: 'session-gone', sessionId: 'sess-1', label: 'refactor' });
    expect(session.isGone).toBe(true);
    expect(ended).toEqual([{ server: NOTES, label: 'refactor', reason: 'gone' }]);
    const { length } = host.seen;
    await expect(session.run(() => client.callTool(tool()))).rejects.toThrow(SessionGoneError);
    expect(host.seen).toHaveLength(length);
    host.known.add('sess-1');
    expect(await valise.sessions(client).list()).toEqual([]);
    await expect(valise.sessions(client).resume('sess-1')).rejects.toThrow(SessionGoneError);
    expect((await valise.sessions(client).named('refactor')).id).toBe('sess-2');
  });

  it('[S-14] A session that is gone is replaced if the caller asked for that, and the call is repeated in the new one', async () => {
    const client = await open();
    const session = await valise.sessions(client).create({ label: 'refactor', onGone: 'recreate' });
    host.known.clear();
    const results = await session.run(() =>
      Promise.all([client.callTool(tool()), client.callTool(tool()), client.listTools()]),
    );
    expect(results[0]).toMatchObject({ content: [{ text: 'done' }] });
    expect([session.id, session.isGone, session.label]).toEqual(['sess-2', false, 'refactor']);
    expect(host.seen.filter(({ method }) => method === names.method.create)).toHaveLength(2);
    expect(sessionOf(host.last('tools/list').meta)?.sessionId).toBe('sess-2');
    expect((await valise.sessions.kept()).map(({ id }) => id)).toEqual(['sess-2']);
    // Once: a server that knows no session at all is not asked for ever.
    host.respond = (request) =>
      request.method === names.method.create
        ? { session: { sessionId: 'sess-x' } }
        : { error: { code: names.code.sessionNotFound, message: 'Session not found' } };
    await expect(session.run(() => client.callTool(tool()))).rejects.toThrow(SessionGoneError);
  });

  it('[S-27] A session that the server revokes with null is gone', async () => {
    const client = await open();
    const session = await valise.sessions(client).create();
    host.answer = () => saying(spelling, null);
    expect(await session.run(() => client.callTool(tool()))).toMatchObject({ content: [{ text: 'done' }] });
    expect(session.isGone).toBe(true);
  });

  it('[S-26] Sessions can be listed, resumed and forked', async () => {
    const client = await open();
    const sessions = valise.sessions(client);
    const a = await sessions.create({ label: 'a' });
    const b = await a.fork({ label: 'b' });
    expect(sessionOf(host.last().meta)).toEqual({ sessionId: 'sess-1', state: 'sess-1:0' });
    expect([b.id, b.label]).toEqual(['sess-2', 'b']);
    host.known.add('sess-elsewhere');
    expect(await sessions.list()).toMatchObject([
      { id: 'sess-1', label: 'a', isKept: true },
      { id: 'sess-2', label: 'b', isKept: true },
      { id: 'sess-elsewhere', label: undefined, isKept: false },
    ]);
    const resumed = await sessions.resume('sess-elsewhere');
    await resumed.run(() => client.callTool(tool()));
    expect(sessionOf(host.last().meta)).toEqual({ sessionId: 'sess-elsewhere', state: 'sess-elsewhere:9' });
    expect(await sessions.resume('sess-1')).toBe(a);
    await expect(sessions.resume('sess-none')).rejects.toThrow(SessionGoneError);
  });

  it('sessions.list() includes sessions that only the store has, and sessions.delete() ends those that only the server lists', async () => {
    const client = await open();
    const sessions = valise.sessions(client);
    const { id } = await sessions.create({ label: 'a' });
    host.known.add('sess-elsewhere');
    const listed = async () => (await sessions.list()).map((each) => [each.id, each.isKept, each.isListed]);
    expect(await listed()).toEqual([
      [id, true, true],
      ['sess-elsewhere', false, true],
    ]);
    expect(await sessions.delete('sess-elsewhere')).toBe(true);
    expect(host.known.has('sess-elsewhere')).toBe(false);
    expect(await sessions.delete('sess-elsewhere')).toBe(false);
    // A server lists nothing for users whom it cannot tell apart.
    host.without.add('list');
    expect(await listed()).toEqual([[id, true, false]]);
    expect(await sessions.delete(id)).toBe(true);
    expect(await listed()).toEqual([]);
  });

  it('Session methods fail with no-sessions if the server has none', async () => {
    for (const verb of ['create', 'list', 'resume', 'fork']) host.without.add(verb);
    const client = await open();
    await expect(valise.sessions(client).create()).rejects.toMatchObject({ code: 'no-sessions' });
    await expect(valise.sessions(client).resume('sess-1')).rejects.toMatchObject({ code: 'no-sessions' });
    expect(await valise.sessions(client).list()).toEqual([]);
  });

  it('[S-23] Sessions with expensive resources are deleted before the client closes', async () => {
    const client = await open();
    const [costly, cheap] = [
      await valise.sessions(client).create({ label: 'x' }),
      await valise.sessions(client).create(),
    ];
    host.answer = ({ method }) =>
      method === 'tools/list'
        ? {
            tools: [
              {
                name: 'open_browser',
                inputSchema: { type: 'object' },
                annotations: { resourceAllocation: true },
              },
              { name: 'echo', inputSchema: { type: 'object' } },
            ],
          }
        : {};
    await client.listTools();
    await costly.run(() => client.callTool(tool('open_browser')));
    await cheap.run(() => client.callTool(tool('echo')));
    await client.close();
    expect([...host.known]).toEqual([cheap.id]);
    expect(host.last().method).toBe(names.method.delete);
    expect(await valise.sessions.kept()).toEqual([]);
  });

  it('close() does not wait for a server that never answers sessions/delete', async () => {
    const client = await open();
    const annotations = { resourceAllocation: true };
    const costly = { name: 'open_browser', inputSchema: { type: 'object' }, annotations };
    host.answer = ({ method }) => (method === 'tools/list' ? { tools: [costly] } : {});
    const session = await valise.sessions(client).create();
    await client.listTools();
    await session.run(() => client.callTool(tool('open_browser')));
    const { respond } = host;
    let isAsked = (): void => {};
    const asked = new Promise<void>((resolve) => (isAsked = resolve));
    host.respond = (request) => {
      if (request.method !== names.method.delete) return respond(request);
      isAsked();
      return new Promise(() => {});
    };
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const closing = client.close();
    await asked;
    await vi.advanceTimersByTimeAsync(10_000);
    vi.useRealTimers();
    await closing;
  });

  it('Each client sends the session requests of its own sessions, even if several are connected to the same server', async () => {
    const [one, two] = [await open(), await open()];
    const annotations = { resourceAllocation: true };
    const costly = { name: 'open_browser', inputSchema: { type: 'object' }, annotations };
    host.answer = ({ method }) => (method === 'tools/list' ? { tools: [costly] } : {});
    const session = await valise.sessions(one).create();
    await one.listTools();
    await session.run(() => one.callTool(tool('open_browser')));
    // It is for all requests to its server, whichever client makes them.
    await session.run(() => two.callTool(tool()));
    expect(sessionOf(host.last('tools/call').meta)?.sessionId).toBe(session.id);
    await two.close();
    expect([...host.known]).toEqual([session.id]);
    await session.run(() => one.callTool(tool()));
    expect(sessionOf(host.last('tools/call').meta)?.sessionId).toBe(session.id);
    expect((await valise.sessions(one).create()).id).toBe('sess-2');
    expect(await valise.sessions(one).list()).toHaveLength(2);
    await one.close();
  });

  it('A session continues with the next client of the server after its own client is closed', async () => {
    const [one, two] = [await open(), await open()];
    const [first, second] = [await valise.sessions(one).create(), await valise.sessions(two).create()];
    await one.close();
    const next = await open();
    await first.run(() => next.callTool(tool()));
    expect(sessionOf(host.last('tools/call').meta)?.sessionId).toBe(first.id);
    await second.run(() => two.callTool(tool()));
    expect(sessionOf(host.last('tools/call').meta)?.sessionId).toBe(second.id);
    expect(() => valise.sessions(one)).toThrow('not connected');
  });

  it('[S-20] An HTTP header names the session, and it is the header of Valise if the transport has a session', async () => {
    const client = await open();
    const session = await valise.sessions(client).create();
    await session.run(() => client.callTool(tool()));
    const name = names.header.session;
    const others = ['mcp-session-id', 'valise-session-id'].filter((each) => each !== name.toLowerCase());
    expect(host.headers.at(-1)?.get(name)).toBe('sess-1');
    for (const other of others) expect(host.headers.at(-1)?.has(other)).toBe(false);
    await client.callTool(tool());
    expect(host.headers.at(-1)?.has(name)).toBe(false);
    await client.close();
    host.sessionId = 'transport-7';
    const sessionful = await open();
    await session.run(() => sessionful.callTool(tool()));
    const headers = host.headers.at(-1);
    if (era === 'modern') expect(headers?.get(name)).toBe('sess-1');
    else {
      expect(headers?.get('Mcp-Session-Id')).toBe('transport-7');
      expect(headers?.get('Valise-Session-Id')).toBe('sess-1');
    }
  });

  it('[S-24] [S-26] Session requests use the names that the server announces: methods, key and header', async () => {
    const client = await open();
    const sessions = valise.sessions(client);
    host.seen.length = 0;
    const session = await sessions.create();
    await session.run(() => client.callTool(tool()));
    expect(Object.keys(host.last('tools/call').meta)).toContain(names.session);
    await session.fork();
    await sessions.list();
    for (const id of ['sess-8', 'sess-9']) host.known.add(id);
    await sessions.resume('sess-8');
    await sessions.recover('sess-9');
    await expect(session.listen(() => {}, { poll: true })).rejects.toMatchObject({ code: 'not-connected' });
    await session.delete();
    const { create, fork, list, resume, recover, listen, delete: remove } = names.method;
    const asked = host.seen.map(({ method }) => method);
    expect(asked).toEqual([create, 'tools/call', fork, list, resume, recover, listen, remove]);
    const keys = host.seen.flatMap(({ meta }) => Object.keys(meta));
    const other = NAMES[spelling === 'legacy' ? 'modern' : 'legacy'].session;
    expect(keys).not.toContain(other);
  });

  it('[S-26] sessions.recover() restores a session from the server, even one that was gone', async () => {
    const client = await open();
    const sessions = valise.sessions(client);
    await sessions.create({ label: 'a' });
    host.known.clear();
    const gone = await sessions.named('a');
    await expect(gone.run(() => client.callTool(tool()))).rejects.toThrow(SessionGoneError);
    await expect(sessions.recover('sess-1')).rejects.toThrow(SessionGoneError);
    host.known.add('sess-1');
    await expect(sessions.resume('sess-1')).rejects.toThrow(SessionGoneError);
    const back = await sessions.recover('sess-1');
    expect(host.last()).toMatchObject({ method: names.method.recover });
    await back.run(() => client.callTool(tool()));
    expect(sessionOf(host.last('tools/call').meta)).toEqual({ sessionId: 'sess-1', state: 'sess-1:9' });
    expect((await valise.sessions.kept()).map(({ id }) => id)).toEqual(['sess-1']);
  });
});

/** Lets answers out one by one. */
function gate() {
  const doors = new Map<string, { promise: Promise<void>; open: () => void }>();
  const door = (name: string) => {
    let found = doors.get(name);
    if (!found) {
      let open = () => {};
      const promise = new Promise<void>((resolve) => (open = resolve));
      doors.set(name, (found = { promise, open }));
    }
    return found;
  };
  return { wait: (name: string) => door(name).promise, open: (name: string) => door(name).open() };
}
