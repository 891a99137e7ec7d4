import { createValise, type ServerValiseOptions } from 'mcp-valise/server';
import { memoryStore, type Store } from 'mcp-valise/store';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { call, endServers, FORMS, initialize, listen, post } from './http-stage.ts';
import {
  connect,
  count,
  errorOf,
  makeServer,
  SESSIONS,
  type SessionClient,
  STAGES,
  type Wire,
} from './sessions-tool.ts';

const SESSION = 'io.modelcontextprotocol/session';
const LISTEN = 'dev.valise/listen';
const TOO_MANY = { code: -32600, data: { code: 'limit-reached' } };

afterEach(endServers);
afterEach(() => void vi.useRealTimers());

/** How many entries a store holds whose key matches. */
const entries = async (store: Store, key = /./): Promise<number> => {
  let found = 0;
  for (let cursor: string | undefined; ; ) {
    const page = await store.list('', cursor === undefined ? {} : { cursor });
    found += page.keys.filter((each) => key.test(each)).length;
    cursor = page.cursor;
    if (cursor === undefined) return found;
  }
};

/** A server over HTTP, and raw clients of it without any authentication. */
const serve = async (form: (typeof FORMS)[string], options: Partial<ServerValiseOptions>) => {
  const rejected: string[] = [];
  const valise = createValise({
    name: 'test',
    ...options,
    // As an operator behind a proxy has it.
    caller: ({ header, address }) => header('x-caller') ?? address,
    events: { rejected: ({ reason }) => rejected.push(reason) },
  });
  const url = await listen(form(valise));
  /** A client with a transport session of its own. */
  const client = async (caller?: string, capabilities: object = SESSIONS) => {
    const own = caller === undefined ? {} : { 'x-caller': caller };
    const made = await post(url, initialize(capabilities), own);
    const headers = { ...own, 'mcp-session-id': made.headers.get('mcp-session-id') as string };
    const send = async (message: object) => (await post(url, message, headers)).message;
    const ask = (method: string, params: object = {}) => send({ jsonrpc: '2.0', id: 3, method, params });
    return {
      send,
      ask,
      create: () => ask('sessions/create'),
      in: ({ sessionId, state }: Wire) =>
        ask('tools/call', {
          name: 'count',
          arguments: {},
          _meta: { [SESSION]: { sessionId, ...(state !== undefined && { state }) } },
        }),
      poll: (asked: object, session?: Wire) =>
        ask('messages/listen', {
          _meta: { [LISTEN]: { poll: true, ...asked }, ...(session && { [SESSION]: session }) },
        }),
      /** A poll that waits, and what ends it. */
      listen() {
        const gone = new AbortController();
        const body = {
          jsonrpc: '2.0',
          id: 4,
          method: 'messages/listen',
          params: { _meta: { [LISTEN]: { poll: true, wait: 60 } } },
        };
        const answer = fetch(url, {
          method: 'POST',
          signal: gone.signal,
          headers: {
            'content-type': 'application/json',
            accept: 'application/json, text/event-stream',
            'mcp-protocol-version': '2025-11-25',
            ...headers,
          },
          body: JSON.stringify(body),
        })
          .then((response) => response.text())
          .catch(() => '');
        return { answer, end: () => gone.abort() };
      },
    };
  };
  return { valise, client, rejected, url };
};

const sessionIn = (answer: object) => (answer as { result: { session: Wire } }).result.session;
const isSession = (answer: object) =>
  (answer as { result?: { session?: Wire } }).result?.session !== undefined;
const SERVED = Object.entries(FORMS).filter(([name]) => name.includes('Node') && !name.includes('JSON'));

describe.each(SERVED)('an anonymous client (%s)', (_, form) => {
  it.each(['stored', 'sealed'] as const)(
    'an anonymous client gets its share of %s sessions, and ends no session of others',
    async (mode) => {
      const sessions = { mode, maxAnonymous: 12, maxAnonymousPerCaller: 5 };
      const { client, rejected, valise } = await serve(form, { store: memoryStore(), sessions });
      const victim = await client('victim');
      const theirs = sessionIn(await victim.create());
      // A new transport session each time is still the same caller.
      const made: object[] = [];
      for (let n = 0; n < 20; n++) made.push(await (await client('mallory')).create());
      expect(made.filter(isSession)).toHaveLength(5);
      expect(made.at(-1)).toMatchObject({ error: TOO_MANY });
      expect(rejected).toContainEqual(expect.stringContaining('sessions.maxAnonymousPerCaller)'));
      expect((await victim.in(theirs)).error).toBeUndefined();
      // With the addresses of many, the total holds, and still none of theirs goes.
      for (let n = 0; n < 20; n++) made.push(await (await client(`mallory ${n}`)).create());
      expect(made.filter(isSession)).toHaveLength(11);
      expect(rejected).toContainEqual(expect.stringContaining('sessions.maxAnonymous)'));
      expect((await victim.in(theirs)).error).toBeUndefined();
      // What it gives back is free for others.
      const mine = made.filter(isSession)[0] as object;
      await (await client('mallory')).ask('sessions/delete', { _meta: { [SESSION]: sessionIn(mine) } });
      expect(isSession(await (await client('other')).create())).toBe(true);
      await valise.close();
    },
  );

  it('deleted sessions of invented callers leave nothing in the store', async () => {
    vi.useFakeTimers({ toFake: ['Date'] });
    const store = memoryStore();
    const { client, valise } = await serve(form, { store, sessions: { mode: 'stored', ttl: '1h' } });
    for (let n = 0; n < 30; n++) {
      const { create, ask } = await client(`made up ${n}`);
      await ask('sessions/delete', { _meta: { [SESSION]: sessionIn(await create()) } });
    }
    vi.setSystemTime(Date.now() + 2 * 3600_000);
    expect(await entries(store)).toBe(0);
    await valise.close();
  });

  it('an anonymous client is one caller by its address, however many transport sessions it opens', async () => {
    const { client, valise } = await serve(form, { sessions: { maxAnonymousPerCaller: 4 } });
    const made: object[] = [];
    for (let n = 0; n < 8; n++) made.push(await (await client()).create());
    expect(made.filter(isSession)).toHaveLength(4);
    await valise.close();
  });

  it('default sessions of anonymous clients count toward the limit too', async () => {
    const store = memoryStore();
    const { client, rejected, valise } = await serve(form, { store, sessions: { maxAnonymous: 10 } });
    const counted: (string | undefined)[] = [];
    for (let n = 0; n < 120; n++) {
      const { send } = await client(`caller ${n}`, {});
      const { result, error } = await send(call('count'));
      counted.push(error === undefined ? JSON.stringify(result) : undefined);
    }
    expect(counted.filter((each) => each?.includes('"1"'))).toHaveLength(10);
    expect(await entries(store, /\/record\//)).toBe(10);
    expect(rejected).toContainEqual(expect.stringContaining('sessions.maxAnonymous)'));
    await valise.close();
  });

  it('stored state of anonymous clients is limited in number, per caller and in total', async () => {
    const store = memoryStore();
    const { client, rejected, valise } = await serve(form, {
      store,
      jar: { maxAnonymous: 12, maxAnonymousPerCaller: 5 },
    });
    const answers: string[] = [];
    for (let n = 0; n < 40; n++) {
      const { send } = await client(n < 20 ? 'mallory' : `mallory ${n}`, {});
      const answer = await send(call('remember'));
      answers.push(answer.error?.message ?? JSON.stringify(answer.result));
    }
    expect(answers.slice(0, 20).filter((each) => each.includes('seen 1'))).toHaveLength(5);
    expect(answers.filter((each) => each.includes('seen 1'))).toHaveLength(12);
    expect(answers.at(-1)).toContain('could not be saved');
    expect(await entries(store, /^state\//)).toBe(12);
    expect(rejected).toContainEqual(expect.stringContaining('state.maxAnonymousPerCaller)'));
    expect(rejected).toContainEqual(expect.stringContaining('state.maxAnonymous)'));
    await valise.close();
  });

  it('stored state of anonymous clients is limited in bytes, per caller and in total', async () => {
    const store = memoryStore();
    const { client, rejected, valise } = await serve(form, { store, jar: { maxAnonymousBytes: 1000 } });
    const size = JSON.stringify({ entries: [['n', 1, null]] }).length;
    const seen: boolean[] = [];
    for (let n = 0; n < 60; n++) {
      const { send } = await client(n < 10 ? 'mallory' : `mallory ${n}`, {});
      seen.push(JSON.stringify(await send(call('remember'))).includes('seen 1'));
    }
    expect(seen.slice(0, 10).filter(Boolean)).toHaveLength(Math.floor(100 / size));
    expect(seen.filter(Boolean)).toHaveLength(Math.floor(1000 / size));
    expect(await entries(store, /^state\//)).toBe(Math.floor(1000 / size));
    expect(rejected).toContainEqual(
      expect.stringContaining('(state.maxAnonymousBytes, the share of one caller)'),
    );
    expect(rejected).toContainEqual(expect.stringContaining('(state.maxAnonymousBytes)'));
    await valise.close();
  });

  it('a principal keeps the state of its latest sessions, and loses that of its oldest', async () => {
    const store = memoryStore();
    const { client, valise } = await serve(form, {
      store,
      jar: { maxPerPrincipal: 3 },
      principal: () => ({ subject: 'ann' }),
    });
    const clients = [];
    for (let n = 0; n < 8; n++) clients.push(await client(undefined, {}));
    for (const { send } of clients) await send(call('remember'));
    expect(await entries(store, /^state\//)).toBe(3);
    expect(JSON.stringify((await clients[7]?.send(call('remember')))?.result)).toContain('seen 2');
    expect(JSON.stringify((await clients[0]?.send(call('remember')))?.result)).toContain('seen 1');
    await valise.close();
  });

  it('invented resource URIs do not fill the store', async () => {
    const store = memoryStore();
    const { client, rejected, valise } = await serve(form, { store, sessions: {} });
    const own = await client();
    const session = sessionIn(await own.create());
    const before = await entries(store);
    let n = 0;
    const madeUp = (length: number) => Array.from({ length }, () => `made://${n++}`);
    for (let times = 0; times < 10; times++) {
      const { poll } = await client();
      await poll({ resources: madeUp(1000) });
      await own.poll({ resources: madeUp(100) });
      await own.poll({ resources: madeUp(100) }, session);
    }
    expect(await entries(store)).toBeLessThan(before + 250);
    expect(rejected).toContainEqual(expect.stringContaining('sessions.maxSubscriptions)'));
    await valise.close();
  });

  it('subscribing and unsubscribing leaves nothing in the store', async () => {
    const store = memoryStore();
    const { client, valise } = await serve(form, { store, sessions: {} });
    const own = await client();
    const session = sessionIn(await own.create());
    const before = await entries(store);
    const _meta = { [SESSION]: session };
    for (let n = 0; n < 200; n++)
      for (const method of ['resources/subscribe', 'resources/unsubscribe'])
        expect((await own.ask(method, { uri: `made://${n}`, _meta })).error).toBeUndefined();
    expect(await entries(store)).toBe(before);
    await valise.close();
  });

  it('an anonymous client gets its share of listeners, and others are still served', async () => {
    const { client, valise, rejected } = await serve(form, {
      sessions: { maxListeners: 12, maxListenersPerCaller: 5 },
    });
    const mallory = await Promise.all(Array.from({ length: 20 }, () => client('mallory')));
    // All at once: none slips through between the count and its place.
    const opened = mallory.map((each) => each.listen());
    const refused: string[] = [];
    for (const { answer } of opened) void answer.then((text) => refused.push(text));
    await vi.waitFor(() => expect(refused).toHaveLength(15));
    for (const text of refused) expect(text).toContain('limit-reached');
    expect(rejected).toContainEqual(expect.stringContaining('sessions.maxListenersPerCaller)'));
    const ann = (await client('ann')).listen();
    await valise.notify('notifications/tools/list_changed');
    expect(await ann.answer).toContain('notifications/tools/list_changed');
    for (const { end } of opened) end();
    await valise.close();
  });
});

describe.each(['stored', 'sealed'] as const)('limits of anonymous %s sessions', (mode) => {
  const at = STAGES[0];

  it('limits of anonymous sessions hold for parallel creation on several instances', async () => {
    const store = memoryStore();
    const options = { store, sessions: { mode, maxAnonymous: 9, maxAnonymousPerCaller: 7 } };
    const clients = await Promise.all(
      [1, 2, 3].map(async () => connect(makeServer(count, options).valise, at)),
    );
    const made = await Promise.all(
      Array.from({ length: 36 }, (_, n) => clients[n % 3]!.request(at.method.create)),
    );
    expect(made.filter((each) => 'result' in each)).toHaveLength(9);
  });

  it('expired sessions no longer count toward the limits of anonymous sessions', async () => {
    vi.useFakeTimers({ toFake: ['Date'] });
    const { valise } = makeServer(count, {
      store: memoryStore(),
      sessions: { mode, ttl: '1h', maxAnonymous: 3 },
    });
    const client = await connect(valise, at);
    for (let n = 0; n < 3; n++) await client.create();
    expect(errorOf(await client.request(at.method.create))).toMatchObject(TOO_MANY);
    vi.setSystemTime(Date.now() + 3600_001);
    expect((await client.use(await client.create())).value).toBe(1);
    await valise.close();
  });

  it('limits of anonymous sessions hold for default sessions of connections', async () => {
    const { valise, rejected } = makeServer(count, { sessions: { mode, maxAnonymous: 3 } });
    const clients = await Promise.all(Array.from({ length: 5 }, () => connect(valise, at, {})));
    const gated = ({ request }: SessionClient) => request('tools/call', { name: 'gated', arguments: {} });
    const answers = await Promise.all(clients.map(gated));
    expect(answers.map((each) => 'result' in each)).toEqual([true, true, true, false, false]);
    expect(errorOf(answers[4]!)).toMatchObject(TOO_MANY);
    expect(rejected.map(({ reason }) => reason)).toContainEqual(
      expect.stringContaining('sessions.maxAnonymous)'),
    );
    await clients[0]?.close();
    expect(await gated(clients[3]!)).toMatchObject({ result: {} });
    await valise.close();
  });
});

describe('limits for one caller', () => {
  const at = STAGES[0];

  it('large session states of one caller in the store are limited, and other callers continue', async () => {
    const store = memoryStore();
    const { valise, rejected } = makeServer(
      (session, { size }) => session?.set('text', 'x'.repeat(Number(size))),
      { store, sessions: { mode: 'sealed', maxSpilled: 1_000_000 } },
    );
    const [mallory, ann] = [await connect(valise, at), await connect(valise, at)];
    const session = await mallory.create();
    let served = 0;
    for (let n = 0; n < 30; n++)
      if ('result' in (await mallory.in(session, 'work', { size: 20_000 + n }))) served++;
    expect(served).toBe(4);
    expect(await entries(store, /^seal\/kept\//)).toBe(4);
    expect(rejected.at(-1)?.reason).toContain('sessions.maxSpilled');
    expect(await ann.in(await ann.create(), 'work', { size: 20_000 })).toMatchObject({ result: {} });
    // What is small travels, and is not limited.
    expect(await mallory.in(session, 'work', { size: 100 })).toMatchObject({ result: {} });
    await valise.close();
  });

  it.each([
    ['stored sessions', SESSIONS, 'work'],
    ['default sessions of connections', {}, 'gated'],
  ])(
    'state in anonymous %s is limited in bytes, per caller and in total, and smaller states free room',
    async (_, capabilities, tool) => {
      const { valise, rejected } = makeServer(
        (session, { size }) => session?.set('text', 'x'.repeat(Number(size))),
        { store: memoryStore(), sessions: { mode: 'stored', maxAnonymousBytes: 1_000_000 } },
      );
      const isStandIn = tool === 'gated';
      const write = async (client: SessionClient, session: Wire | undefined, size: number) =>
        'result' in
        (session
          ? await client.in(session, tool, { size })
          : await client.request('tools/call', { name: tool, arguments: { size } }));
      const made: (readonly [SessionClient, Wire | undefined])[] = [];
      const room = async (client: SessionClient) => {
        const session = isStandIn ? undefined : await client.create();
        if (!(await write(client, session, 20_000))) return false;
        made.push([client, session]);
        return true;
      };
      const mallory = await connect(valise, at, capabilities);
      if (isStandIn) expect(await write(mallory, undefined, 100_001)).toBe(false);
      else for (let n = 0; n < 8; n++) expect(await room(mallory)).toBe(n < 4);
      expect(rejected.at(-1)?.reason).toContain('(sessions.maxAnonymousBytes, the share of one caller)');
      for (let n = 0; n < 60; n++) await room(await connect(valise, at, capabilities));
      expect(made).toHaveLength(49);
      expect(rejected.at(-1)?.reason).toContain('(sessions.maxAnonymousBytes)');
      // A smaller state in the place of a large one makes room, and so does an end.
      const late = await connect(valise, at, capabilities);
      expect(await room(late)).toBe(false);
      const [[smaller, own], [ending, ended]] = made.slice(-2) as [(typeof made)[0], (typeof made)[0]];
      expect(await write(smaller, own, 10)).toBe(true);
      expect(await room(late)).toBe(true);
      expect(await room(await connect(valise, at, capabilities))).toBe(false);
      if (ended) await ending.request(at.method.delete, { _meta: at.sent(ended) });
      else await ending.close();
      expect(await room(await connect(valise, at, capabilities))).toBe(true);
      await valise.close();
    },
  );

  it('state in an anonymous stored session counts once, however many parallel calls change it', async () => {
    const { valise } = makeServer((session, { key }) => session?.set(String(key), 'x'.repeat(10_000)), {
      store: memoryStore(),
      sessions: { mode: 'stored', maxAnonymousBytes: 1_000_000 },
    });
    const mallory = await connect(valise, at);
    const session = await mallory.create();
    const answers = await Promise.all(
      Array.from({ length: 15 }, (_, key) => mallory.in(session, 'work', { key })),
    );
    expect(answers.filter((each) => 'result' in each)).toHaveLength(9);
    await valise.close();
  });

  it('ended transport sessions of one caller are limited, and other callers can end theirs', async () => {
    const store = memoryStore();
    const rejected: string[] = [];
    const valise = createValise({
      name: 'test',
      store,
      caller: ({ header }) => header('x-caller'),
      events: { rejected: ({ reason }) => rejected.push(reason) },
    });
    const handle = valise.http(async (_request: Request) => Response.json({}));
    const send = (method: string, headers: Record<string, string>) =>
      handle(
        new Request('http://test/mcp', {
          method,
          headers: {
            'content-type': 'application/json',
            accept: 'application/json, text/event-stream',
            ...headers,
          },
          ...(method === 'POST' && { body: JSON.stringify(initialize({})) }),
        }),
      );
    const end = async (caller: string): Promise<number> => {
      const { headers } = await send('POST', { 'x-caller': caller });
      const id = headers.get('mcp-session-id') as string;
      return (await send('DELETE', { 'x-caller': caller, 'mcp-session-id': id })).status;
    };
    let ended = 0;
    for (let n = 0; n < 10_050; n++) if ((await end('mallory')) === 200) ended++;
    expect(ended).toBe(10_000);
    expect(await entries(store, /^transport\/ended\//)).toBe(10_000);
    expect(rejected.at(-1)).toContain('Too many transport sessions have ended');
    expect(await end('ann')).toBe(200);
    await valise.close();
  });

  it('parallel requests on one connection are limited, and other connections are served', async () => {
    const warnings: string[] = [];
    let open = (): void => undefined;
    const opened = new Promise<void>((resolve) => {
      open = resolve;
    });
    const { valise } = makeServer(() => opened, { events: { warning: ({ what }) => warnings.push(what) } });
    const [mallory, ann] = [await connect(valise, at), await connect(valise, at)];
    const call = (client: SessionClient) => client.request('tools/call', { name: 'work', arguments: {} });
    const calls = Array.from({ length: 10_010 }, () => call(mallory));
    const theirs = call(ann);
    await expect.poll(() => warnings.length).toBeGreaterThanOrEqual(10);
    open();
    const answers = await Promise.all(calls);
    expect(answers.filter((each) => 'error' in each)).toHaveLength(10);
    expect(await theirs).toMatchObject({ result: {} });
    expect(warnings).toContainEqual(expect.stringContaining('more than 10000 requests'));
    await valise.close();
  });
});

describe('sessions that have ended', () => {
  const at = STAGES[0];

  it('a session stays ended however many others end', async () => {
    const { valise } = makeServer(count, { sessions: { mode: 'sealed' } });
    const client = await connect(valise, at);
    const { session } = await client.use(await client.create());
    await client.request(at.method.delete, { _meta: at.sent(session) });
    for (let n = 0; n < 100_001; n++) await valise.sessions.revoke(`sess-${n}`);
    expect(errorOf(await client.in(session)).code).toBe(at.code.notFound);
    await valise.close();
  });

  it.each([
    ['without a store', () => undefined],
    ['with a store', memoryStore],
  ])(
    'ended sessions are remembered until their seals expire, and no session begins if there are too many, %s',
    async (_, store) => {
      vi.useFakeTimers({ toFake: ['Date'] });
      const { valise, rejected } = makeServer(count, {
        store: store(),
        sessions: { mode: 'sealed', ttl: '1h', maxEnded: 100 },
      });
      const client = await connect(valise, at);
      const ended: Wire[] = [];
      const refused = async (): Promise<object | undefined> => {
        const made = await client.request(at.method.create);
        if ('error' in made) return made.error;
        const session = (made.result as unknown as { session: Wire }).session;
        ended.push((await client.use(session)).session);
        await client.request(at.method.delete, { _meta: at.sent(session) });
        return undefined;
      };
      let error: object | undefined;
      for (let n = 0; n < 150 && !error; n++) error = await refused();
      expect(error).toMatchObject(TOO_MANY);
      expect(ended).toHaveLength(100);
      expect(rejected.at(-1)?.reason).toContain('sessions.maxEnded)');
      for (const session of ended) expect(errorOf(await client.in(session)).code).toBe(at.code.notFound);
      vi.setSystemTime(Date.now() + 2 * 3600_000);
      expect(await refused()).toBeUndefined();
      await valise.close();
    },
  );
});
