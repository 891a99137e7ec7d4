import {
  createValise,
  type EndedSession,
  type NewSession,
  type ServerValiseOptions,
  sessionRequired,
} from 'mcp-valise/server';
import { memoryStore } from 'mcp-valise/store';
import { describe, expect, it, vi } from 'vitest';
import { resultOf, textOf } from './raw-client.ts';
import {
  ALL_STAGES,
  attach,
  behindEdge,
  connect,
  count,
  errorOf,
  keys,
  makeServer,
  STAGES,
  type Stage,
} from './sessions-tool.ts';

const text = (value: string) => ({ content: [{ type: 'text' as const, text: value }] });

/** The hint that sessions of a tool hold something expensive; no SDK has a type for it. */
const allocates = { resourceAllocation: true } as object;

/** A server with gates on tools, prompts and resources, said in every way there is. */
async function gated(at: Stage, options: Partial<ServerValiseOptions> = {}) {
  const valise = createValise({ name: 'test', keys, sessions: {}, ...options });
  let ran = 0;
  const ran1 = <Value>(value: Value): Value => {
    ran++;
    return value;
  };
  const build = () => {
    const server = valise.install(new at.major.McpServer({ name: 'test', version: '1.0.0' }));
    server.registerTool('by_name', {}, async () => ran1(text('done')));
    server.registerTool('by_config', { _meta: { ...sessionRequired } }, async () => ran1(text('done')));
    server.registerTool('open', { _meta: { other: 1 }, annotations: allocates }, async () =>
      ran1(text('done')),
    );
    server.registerPrompt('ask', {}, async () =>
      ran1({ messages: [{ role: 'user' as const, content: { type: 'text' as const, text: 'hi' } }] }),
    );
    const read = async (uri: URL) => ran1({ contents: [{ uri: uri.href, text: 'note' }] });
    server.registerResource('one', 'notes://one', {}, read);
    server.registerResource('two', 'notes://two', { _meta: { ...sessionRequired } }, read);
    server.registerResource('three', 'other://three', {}, read);
    return server;
  };
  valise.sessions.require('by_name', { prompt: 'ask' }, { resource: 'notes://on*' });
  return { client: await attach(build, at), ran: () => ran };
}

describe.each(ALL_STAGES)('operations that require a session, on $stage', (at) => {
  const { sent, sessionIn, required } = at;

  it.each([
    ['a tool, by its name', 'tools/call', { name: 'by_name' }],
    ['a tool, by its config', 'tools/call', { name: 'by_config' }],
    ['a prompt', 'prompts/get', { name: 'ask' }],
    ['a resource, by the start of its URI', 'resources/read', { uri: 'notes://one' }],
    ['a resource, by its config', 'resources/read', { uri: 'notes://two' }],
  ])(
    '[S-22] [S-25] %s that requires a session is refused without one and served with one',
    async (_, method, params) => {
      const { client, ran } = await gated(at);
      expect(errorOf(await client.request(method, params))).toEqual(required);
      expect(ran()).toBe(0);
      const session = await client.create();
      const result = resultOf(await client.request(method, { ...params, _meta: sent(session) }));
      expect(sessionIn(result)).toMatchObject({ sessionId: session.sessionId });
      expect(ran()).toBe(1);
    },
  );

  it.each([
    ['a tool', 'tools/call', { name: 'open' }],
    ['a resource', 'resources/read', { uri: 'other://three' }],
    ['a list', 'tools/list', {}],
  ])('[S-22] %s that requires no session is served without one', async (_, method, params) => {
    const { client } = await gated(at);
    expect(await client.request(method, params)).toMatchObject({ result: {} });
  });

  it('[S-22] a tool that requires a session says so in the list if its config does', async () => {
    const { client } = await gated(at);
    const { tools } = resultOf(await client.request('tools/list')) as unknown as {
      tools: { name: string; _meta?: object }[];
    };
    expect(tools.find(({ name }) => name === 'by_config')?._meta).toEqual({
      'dev.valise/session': { required: true },
    });
  });
});

describe.each(ALL_STAGES)('the hint of an expensive tool, on $stage', (at) => {
  it('[S-23] only the expensive tool has the hint in its annotations', async () => {
    const { client } = await gated(at);
    const { tools } = resultOf(await client.request('tools/list')) as unknown as {
      tools: { name: string; annotations?: object }[];
    };
    expect(tools.find(({ name }) => name === 'open')?.annotations).toEqual({ resourceAllocation: true });
    expect(tools.filter(({ annotations }) => annotations)).toHaveLength(1);
  });
});

const STOCK = {};

/** What waits until it is unlocked. */
const gate = () => {
  let unlock = (): void => {};
  const open = new Promise<void>((resolve) => {
    unlock = resolve;
  });
  return { open, unlock };
};

describe.each(STAGES)('default sessions of a connection, on $stage', (at) => {
  it('a client without session support gets the default session of its connection, and sees nothing of it', async () => {
    const { valise } = makeServer((session, args) => [session?.implicit, count(session, args)]);
    const [one, two] = [await connect(valise, at, STOCK), await connect(valise, at, STOCK)];
    const first = await one.call('gated');
    expect(textOf(first)).toBe('[true,1]');
    expect(JSON.stringify(first)).not.toContain('session');
    expect(textOf(await one.call('gated'))).toBe('[true,2]');
    expect(textOf(await one.call('work'))).toBe('[true,3]');
    expect(textOf(await two.call('gated'))).toBe('[true,1]');
  });

  it('a client without session support is refused if the author turned default sessions off', async () => {
    const { valise, ran } = makeServer(count, { sessions: { implicit: false } });
    const client = await connect(valise, at, STOCK);
    expect(errorOf(await client.request('tools/call', { name: 'gated', arguments: {} })).code).toBe(
      at.code.required,
    );
    expect(ran()).toBe(0);
    expect(textOf(await client.call('work'))).toBe('1');
    expect(textOf(await client.call('work'))).toBe('1');
  });

  it('a default session loses no update under parallel calls', async () => {
    const { valise } = makeServer(async (session) => {
      const n = session?.get<number>('n') ?? 0;
      await new Promise((resolve) => setImmediate(resolve));
      session?.set('n', n + 1);
      return n + 1;
    });
    const client = await connect(valise, at, STOCK);
    await Promise.all(Array.from({ length: 20 }, (_, n) => client.call(n % 2 ? 'gated' : 'work')));
    expect(textOf(await client.call('gated'))).toBe('21');
  });

  it('the default session of a connection ends when the connection closes', async () => {
    const begun: string[] = [];
    const ended: EndedSession[] = [];
    const { valise } = makeServer(count, {
      sessions: {
        onCreate: (session) => {
          begun.push(session.id);
          session.set('n', 10);
        },
        onEnd: (session) => void ended.push(session),
      },
    });
    const client = await connect(valise, at, STOCK);
    // Nothing is allocated for an operation that needs no session.
    expect(textOf(await client.call('work'))).toBe('1');
    expect(begun).toEqual([]);
    expect(textOf(await client.call('gated'))).toBe('11');
    expect(textOf(await client.call('work'))).toBe('12');
    expect(begun).toHaveLength(1);
    await client.close();
    expect(ended).toMatchObject([{ id: begun[0], reason: 'closed' }]);
    expect(ended[0]?.get('n')).toBe(12);
    await valise.close();
  });

  it('onCreate runs once for a default session, before any of the parallel calls that need it', async () => {
    const begun: string[] = [];
    const ended: EndedSession[] = [];
    const door = gate();
    const { valise } = makeServer(count, {
      sessions: {
        async onCreate(session) {
          begun.push(session.id);
          await door.open;
          session.set('n', 10);
        },
        onEnd: (session) => void ended.push(session),
      },
    });
    const client = await connect(valise, at, STOCK);
    const calls = [1, 2, 3].map(() => client.call('gated'));
    // One that needs no session does not wait for it.
    expect(textOf(await client.call('work'))).toBe('1');
    door.unlock();
    const values = (await Promise.all(calls)).map((result) => Number(textOf(result)));
    expect(values.sort()).toEqual([11, 12, 13]);
    expect(begun).toHaveLength(1);
    await client.close();
    expect(ended).toMatchObject([{ id: begun[0], reason: 'closed' }]);
  });

  it('all calls that wait for a failing onCreate are refused, and the next call tries again', async () => {
    let begun = 0;
    const ended: EndedSession[] = [];
    const door = gate();
    const { valise, ran } = makeServer(count, {
      sessions: {
        async onCreate() {
          await door.open;
          if (++begun === 1) throw new Error('No browser is free.');
        },
        onEnd: (session) => void ended.push(session),
      },
    });
    const client = await connect(valise, at, STOCK);
    const calls = [1, 2].map(() => client.request('tools/call', { name: 'gated', arguments: {} }));
    await client.call('work');
    door.unlock();
    for (const call of calls) expect(errorOf(await call).message).toBe('No browser is free.');
    expect([begun, ran()]).toEqual([1, 1]);
    expect(textOf(await client.call('gated'))).toBe('1');
    await client.close();
    expect([begun, ended.length]).toEqual([2, 1]);
  });

  it('onEnd is called after onCreate if the connection closes while onCreate runs', async () => {
    const ended: EndedSession[] = [];
    const door = gate();
    const began = gate();
    const { valise } = makeServer(count, {
      sessions: {
        async onCreate(session) {
          began.unlock();
          await door.open;
          session.set('browser', 7);
        },
        onEnd: (session) => void ended.push(session),
      },
    });
    const client = await connect(valise, at, STOCK);
    client.call('gated').catch(() => undefined);
    await began.open;
    await client.close();
    expect(ended).toEqual([]);
    door.unlock();
    await vi.waitFor(() => expect(ended).toMatchObject([{ reason: 'closed' }]));
    expect(ended[0]?.get('browser')).toBe(7);
  });

  it('a default session starts over after the server has revoked it', async () => {
    const { valise } = makeServer((session, args) => {
      if (args['end']) session?.revoke();
      return count(session, args);
    });
    const client = await connect(valise, at, STOCK);
    expect(textOf(await client.call('gated'))).toBe('1');
    expect(textOf(await client.call('gated', { end: true }))).toBe('2');
    expect(textOf(await client.call('gated'))).toBe('1');
  });
});

describe.each(STAGES)('default sessions over HTTP without sessions of the SDK, on $stage', (at) => {
  /** Requests as our HTTP edge hands them on: each on a server of its own, with the session that a seal proved. */
  const overHttp = async (
    valise: ReturnType<typeof makeServer>['valise'],
    name: string,
    session?: string,
  ) => {
    const client = await connect(valise, at, STOCK, { http: true });
    const call = async () => client.request('tools/call', { name, arguments: {} });
    return session === undefined ? call() : behindEdge(valise, session, call);
  };

  it('any instance serves a default session if the HTTP edge proves its transport session and there is a store', async () => {
    for (const mode of ['sealed', 'stored'] as const) {
      const options = { store: memoryStore(), sessions: { mode } };
      const [one, two] = [makeServer(count, options).valise, makeServer(count, options).valise];
      expect(textOf(resultOf(await overHttp(one, 'gated', 'edge-1')))).toBe('1');
      expect(textOf(resultOf(await overHttp(two, 'gated', 'edge-1')))).toBe('2');
      expect(textOf(resultOf(await overHttp(one, 'work', 'edge-1')))).toBe('3');
      expect(textOf(resultOf(await overHttp(two, 'gated', 'edge-2')))).toBe('1');
      const all = await Promise.all(Array.from({ length: 10 }, () => overHttp(two, 'gated', 'edge-3')));
      expect(all.map((response) => Number(textOf(resultOf(response)))).sort((a, b) => a - b)).toEqual(
        Array.from({ length: 10 }, (_, n) => n + 1),
      );
    }
  });

  it('onCreate runs once over all instances for a default session, before any handler, and no update is lost', async () => {
    const begun: string[] = [];
    const door = gate();
    const options = {
      store: memoryStore(),
      sessions: {
        mode: 'stored' as const,
        async onCreate(session: NewSession) {
          begun.push(session.id);
          await door.open;
          session.set('n', 10);
        },
      },
    };
    const [one, two] = [makeServer(count, options), makeServer(count, options)];
    const calls = [one, two, one, two].map(({ valise }) => overHttp(valise, 'gated', 'edge-1'));
    // Where no session is needed nothing waits, and there is none yet.
    expect(textOf(resultOf(await overHttp(two.valise, 'work', 'edge-1')))).toBe('1');
    expect([one.ran(), two.ran()]).toEqual([0, 1]);
    await vi.waitFor(() => expect(begun).toHaveLength(1));
    door.unlock();
    const values = (await Promise.all(calls)).map((response) => Number(textOf(resultOf(response))));
    expect(values.sort()).toEqual([11, 12, 13, 14]);
    expect(begun).toHaveLength(1);
  });

  it('a failing onCreate leaves nothing of a default session in the store, and the next call tries again', async () => {
    let begun = 0;
    const { valise, ran } = makeServer(count, {
      store: memoryStore(),
      sessions: {
        mode: 'stored',
        onCreate() {
          if (++begun < 3) throw new Error('No browser is free.');
        },
      },
    });
    for (let n = 0; n < 2; n++)
      expect(errorOf(await overHttp(valise, 'gated', 'edge-1')).message).toBe('No browser is free.');
    expect(ran()).toBe(0);
    expect(textOf(resultOf(await overHttp(valise, 'gated', 'edge-1')))).toBe('1');
    expect(textOf(resultOf(await overHttp(valise, 'gated', 'edge-1')))).toBe('2');
    expect(begun).toBe(3);
  });

  it('a default session in the store starts over each time the server revokes it', async () => {
    const { valise } = makeServer(
      (session, args) => {
        const n = count(session, args);
        if (n === 2) session?.revoke();
        return n;
      },
      { store: memoryStore() },
    );
    const values = [];
    for (let n = 0; n < 6; n++) values.push(textOf(resultOf(await overHttp(valise, 'gated', 'edge-1'))));
    expect(values).toEqual(['1', '2', '1', '2', '1', '2']);
  });

  it('a client without session support is refused if nothing proves its transport session or there is no store', async () => {
    // With handles, the model would prove one.
    const { valise } = makeServer(count, { store: memoryStore(), handles: false });
    expect(errorOf(await overHttp(valise, 'gated')).code).toBe(at.code.required);
    const storeless = makeServer(count).valise;
    expect(errorOf(await overHttp(storeless, 'gated', 'edge-1')).code).toBe(at.code.required);
    expect(textOf(resultOf(await overHttp(storeless, 'work', 'edge-1')))).toBe('1');
  });
});

describe.each(ALL_STAGES)('the HTTP header of a session, on $stage', (at) => {
  it('[S-20] the HTTP header must name the session of the message if it names any', async () => {
    const { valise, ran } = makeServer(count);
    const headers = new Headers();
    const client = await connect(valise, at, at.announces, { http: true, headers });
    const session = await client.create();
    headers.set('Valise-Session-Id', session.sessionId);
    headers.set('Mcp-Session-Id', session.sessionId);
    expect((await client.use(session)).value).toBe(1);
    headers.set('Valise-Session-Id', 'sess-other');
    expect(errorOf(await client.in(session)).code).toBe(-32602);
    expect(ran()).toBe(1);
    headers.delete('Valise-Session-Id');
    headers.set('Mcp-Session-Id', 'sess-other');
    const answer = await client.in(session);
    // The newer era has no transport sessions: that header means nothing in it, but to those who speak the drafts' names.
    const isMeant = at.era === 'legacy' || !at.isOurs;
    if (isMeant) expect(errorOf(answer).code).toBe(-32602);
    else expect(textOf(resultOf(answer))).toBe('1');
    expect(ran()).toBe(isMeant ? 1 : 2);
  });
});
