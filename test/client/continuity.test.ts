import type { Client } from '@modelcontextprotocol/client';
import { type ClientValise, openValise, type Store } from 'mcp-valise/client';
import { memoryStore } from 'mcp-valise/store';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { callWith, count, LEGACY_CLIENTS, openSessionful, type Sessionful } from './sessionful.ts';

let server: Sessionful;
let store: Store;
let opened: { valise: ClientValise; client: Client }[];
beforeEach(async () => {
  server = await openSessionful();
  store = memoryStore();
  opened = [];
});
afterEach(async () => {
  for (const { client, valise } of opened) {
    await client.close();
    await valise.close();
  }
  await server.close();
});

describe.each(LEGACY_CLIENTS)('a $kind client on a server with sessions', ({ make }) => {
  /** A process of the host: it knows nothing but the store. */
  async function start(options = {}, client = make(), allowLocal = true): Promise<Client> {
    const valise = await openValise({ store, allowLocal });
    opened.push({ valise, client });
    await valise.connect(client, server.url, options);
    return client;
  }

  /** Ends as a crash does: nothing is said to the server. */
  const crash = (client: Client) => client.close();

  it('[C-04] A client stores the session id of `initialize` and sends it with every later request', async () => {
    const client = await start();
    await count(client);
    const [session] = server.sessions();
    expect(server.heard.find(({ method }) => method === 'initialize')?.session).toBeUndefined();
    const after = server.heard.filter(({ method }) => !['initialize', 'server/discover'].includes(method));
    expect(new Set(after.map((heard) => heard.session))).toEqual(new Set([session]));
    expect(client.transport?.sessionId).toBe(session);
  });

  it('[C-01][C-03][C-07] A restarted client continues in the session as if it had initialized', async () => {
    const one = await start();
    expect(await count(one)).toBe(1);
    const before = { capabilities: one.getServerCapabilities(), version: one.getServerVersion() };
    await crash(one);
    server.heard.length = 0;
    const two = await start();
    expect(two.getServerCapabilities()).toEqual(before.capabilities);
    expect(two.getServerVersion()).toEqual(before.version);
    expect(two.getInstructions()).toBe('be kind');
    expect(two.transport?.sessionId).toBe(server.sessions()[0]);
    expect((await two.listTools()).tools.map(({ name }) => name)).toEqual(['count', 'wait']);
    expect(await count(two)).toBe(2);
    expect(server.methods().filter((method) => method !== 'GET')).toEqual(['tools/list', 'tools/call']);
    expect(new Set(server.heard.map(({ version }) => version))).toEqual(new Set(['2025-11-25']));
  });

  it('A restarted client reopens the standalone stream after the last event that was read', async () => {
    const one = await start();
    const changes: string[] = [];
    const hear = (client: Client) => {
      client.onerror = () => {};
      const name = `${changes.length}`;
      (client.fallbackNotificationHandler as unknown) = async ({ method }: { method: string }) => {
        changes.push(`${name} ${method}`);
      };
    };
    hear(one);
    await expect.poll(() => server.methods()).toContain('GET');
    await server.announce();
    await expect.poll(() => changes).toHaveLength(1);
    await expect.poll(async () => JSON.stringify(await everything(store))).toContain('event-');
    const [read] = JSON.stringify(await everything(store)).match(/event-\d+/) ?? [];
    await crash(one);
    await server.announce();
    server.heard.length = 0;
    const two = make();
    hear(two);
    await start({}, two);
    await expect.poll(() => changes).toHaveLength(2);
    expect(server.heard.find(({ verb }) => verb === 'GET')).toMatchObject({ lastEventId: read });
  });

  it('A restarted client ignores late responses to the calls of the previous process', async () => {
    const one = await start();
    await count(one);
    one.callTool({ name: 'wait', arguments: { tag: 'OLD' } }).catch(() => {});
    await server.waiting('OLD');
    await crash(one);
    const two = await start();
    await count(two);
    const progress: unknown[] = [];
    const asked = callWith(two, 'NEW', {
      onprogress: ({ message }: { message?: string }) => progress.push(message),
    });
    await server.waiting('NEW');
    server.release('OLD');
    server.release('NEW');
    expect((await asked).content).toEqual([{ type: 'text', text: 'NEW' }]);
    expect(progress).toEqual(['NEW']);
    const ids = server.heard.map(({ id }) => id).filter((id) => id !== undefined);
    expect(new Set(ids).size).toBe(ids.length);
  });

  it('A cancellation names the call by its id on the wire', async () => {
    await crash(await start());
    const two = await start();
    const stop = new AbortController();
    const asked = callWith(two, 'X', { signal: stop.signal });
    await server.waiting('X');
    const id = server.heard.find(({ method }) => method === 'tools/call')?.id;
    expect(id).toMatch(/^[\w-]{8}:\d+$/);
    stop.abort('enough');
    await expect(asked).rejects.toThrow('enough');
    await expect
      .poll(() => server.heard.at(-1))
      .toMatchObject({
        method: 'notifications/cancelled',
        params: { requestId: id },
      });
    server.release('X');
  });

  it('A client does not repeat a call that nobody waits for', async () => {
    const client = await start();
    server.lose();
    const stop = new AbortController();
    let goOn = () => {};
    const asked = callWith(client, 'X', { signal: stop.signal });
    server.intercept = ({ method }) =>
      method === 'initialize' ? new Promise((resolve) => (goOn = () => resolve(undefined))) : undefined;
    await expect.poll(() => server.methods().filter((method) => method === 'initialize')).toHaveLength(2);
    stop.abort('enough');
    await expect(asked).rejects.toThrow('enough');
    goOn();
    expect(await count(client)).toBe(1);
    expect(server.heard.filter(({ params }) => params['name'] === 'wait')).toHaveLength(1);
  });

  it('A call that is canceled while it waits for a new session is not sent', async () => {
    const client = await start();
    server.lose();
    const found = count(client);
    let goOn = () => {};
    server.intercept = ({ method }) =>
      method === 'initialize' ? new Promise((resolve) => (goOn = () => resolve(undefined))) : undefined;
    await expect.poll(() => server.methods().filter((method) => method === 'initialize')).toHaveLength(2);
    const stop = new AbortController();
    const waits = callWith(client, 'X', { signal: stop.signal });
    stop.abort('enough');
    await expect(waits).rejects.toThrow('enough');
    goOn();
    expect(await found).toBe(1);
    expect(await count(client)).toBe(2);
    expect(JSON.stringify(server.heard)).not.toContain('"tag":"X"');
  });

  it('[C-05] If the session is over, a client starts one new session and retries the calls once', async () => {
    const client = await start();
    await count(client);
    await count(client);
    server.lose();
    server.instructions = 'be kinder';
    server.heard.length = 0;
    expect(await Promise.all([count(client), count(client), count(client)])).toEqual(
      expect.arrayContaining([1, 2, 3]),
    );
    expect(server.methods().filter((method) => method === 'initialize')).toHaveLength(1);
    const [renewed] = server.sessions();
    expect(server.heard.find(({ method }) => method === 'initialize')).toMatchObject({
      session: undefined,
      version: undefined,
    });
    expect(client.transport?.sessionId).toBe(renewed);
    expect(client.getInstructions()).toBe('be kinder');
    await crash(client);
    server.heard.length = 0;
    expect(await count(await start())).toBe(4);
    expect(server.methods()).not.toContain('initialize');
  });

  it('[C-05] A late rejection in the old session does not start a second new one', async () => {
    const client = await start();
    await count(client);
    server.lose();
    let refuse = () => {};
    server.intercept = ({ method, params }) =>
      method === 'tools/call' && params['name'] === 'wait'
        ? new Promise((resolve) => (refuse = () => resolve({ status: 404, body: 'Session not found' })))
        : undefined;
    const late = callWith(client, 'LATE', {});
    await expect.poll(() => server.heard.at(-1)?.params['name']).toBe('wait');
    expect(await count(client)).toBe(1);
    server.intercept = () => undefined;
    server.release('LATE');
    refuse();
    expect((await late).content).toEqual([{ type: 'text', text: 'LATE' }]);
    expect(server.methods().filter((method) => method === 'initialize')).toHaveLength(2);
    expect(await count(client)).toBe(2);
  });

  it('[C-05] A restarted client starts a new session if the server answers 404 or 400', async () => {
    await crash(await start());
    server.lose();
    server.heard.length = 0;
    const two = await start();
    expect(server.methods()).not.toContain('initialize');
    expect(await count(two)).toBe(1);
    server.lose();
    let once = true;
    server.intercept = ({ method }) => {
      if (method !== 'tools/call' || !once) return undefined;
      once = false;
      return { status: 400, body: 'Bad Request: No valid session ID provided' };
    };
    expect(await count(two)).toBe(1);
    expect(server.methods().filter((method) => method === 'initialize')).toHaveLength(2);
  });

  it('A server that knows no session at all gets one new initialize', async () => {
    const client = await start();
    server.heard.length = 0;
    server.intercept = ({ method }) => (method === 'tools/call' ? { status: 404, body: 'gone' } : undefined);
    await expect(count(client)).rejects.toThrow('gone');
    expect(server.methods().filter((method) => method === 'initialize')).toHaveLength(1);
    expect(server.methods().filter((method) => method === 'tools/call')).toHaveLength(2);
  });

  it('The call fails with the first error if a new session cannot be started', async () => {
    const client = await start();
    const warnings: string[] = [];
    opened[0]?.valise.on('warning', ({ what }) => warnings.push(what));
    server.intercept = ({ method, verb }) =>
      method === 'initialize'
        ? { status: 503, body: 'full' }
        : verb === 'POST'
          ? { status: 404, body: 'first' }
          : undefined;
    await expect(count(client)).rejects.toThrow('first');
    expect(warnings).toEqual([expect.stringMatching(/new session could not be started.*full/)]);
    server.intercept = () => undefined;
    expect(await count(client)).toBe(1);
  });

  it('[C-05] A later call starts a new session if an earlier one could not, also on servers that answer without a session', async () => {
    const client = await start();
    await count(client);
    server.lose();
    let isAway = true;
    server.intercept = ({ method, session, id }) => {
      if (method === 'initialize' && isAway) return { status: 503, body: 'not yet' };
      if (method !== 'tools/call' || session !== undefined) return undefined;
      const error = { code: -32_602, message: 'Received request before initialization was complete' };
      return { status: 200, body: JSON.stringify({ jsonrpc: '2.0', id, error }) };
    };
    await expect(count(client)).rejects.toThrow(/Session not found/);
    isAway = false;
    expect(await count(client)).toBe(1);
    expect(server.sessions()).toEqual([client.transport?.sessionId]);
  });

  it('[C-08] A client negotiates a version again if the server has dropped the stored one', async () => {
    await crash(await start());
    server.intercept = ({ method, version }) =>
      version === '2025-11-25' && method === 'tools/call'
        ? { status: 400, body: 'Bad Request: Unsupported protocol version: 2025-11-25' }
        : undefined;
    const { intercept } = server;
    const two = await start();
    const renewed: string[] = [];
    opened[1]?.valise.on('renewed', ({ reason }) => renewed.push(reason));
    // The new session is agreed on at once, and the server takes the version again.
    server.intercept = (heard) => {
      if (heard.method === 'initialize') server.intercept = () => undefined;
      return intercept(heard);
    };
    expect(await count(two)).toBe(1);
    expect(renewed).toEqual(['version']);
  });

  it('[C-08] A client starts over if the snapshot has a version that the client does not know', async () => {
    await crash(await start());
    const { keys } = await store.list('connection/');
    const [key = ''] = keys.filter((name) => name.endsWith('/legacy'));
    const kept = (await store.get(key))?.value as { introduction: object };
    await store.put(key, {
      ...kept,
      protocolVersion: '1999-01-01',
      introduction: { ...kept.introduction, protocolVersion: '1999-01-01' } as never,
    });
    server.heard.length = 0;
    expect(await count(await start())).toBe(1);
    expect(server.methods().filter((method) => method === 'initialize')).toHaveLength(1);
  });

  it.each([
    ['nonsense', 'nonsense'],
    ['a snapshot without an introduction', { era: 'legacy', protocolVersion: '2025-11-25' }],
    ['a list', []],
  ])('A client starts over if %s is stored', async (_, value) => {
    await crash(await start());
    for (const key of (await store.list('connection/')).keys) await store.put(key, value as never);
    expect(await count(await start())).toBe(1);
  });

  it('A session that the host has ended is deleted from the store', async () => {
    const client = await start();
    await (client.transport as unknown as { terminateSession(): Promise<void> }).terminateSession();
    await expect.poll(async () => (await store.list('connection/')).keys).toEqual([]);
    await crash(client);
    expect(await count(await start())).toBe(1);
  });

  it('With resume: false, a client stores nothing and starts over', async () => {
    await crash(await start({ resume: false }));
    expect((await store.list('connection/')).keys).toEqual([]);
    const two = await start({ resume: false });
    expect(await count(two)).toBe(1);
    server.lose();
    expect(await count(two)).toBe(1);
    expect((await store.list('connection/')).keys).toEqual([]);
  });

  it('[C-09] Several processes share a session, and one of them starts the new one', async () => {
    const clients = [await start(), await start(), await start()];
    expect(await Promise.all(clients.map(count))).toEqual(expect.arrayContaining([1, 2, 3]));
    expect(server.sessions()).toHaveLength(1);
    server.lose();
    server.heard.length = 0;
    expect(await Promise.all(clients.map(count))).toEqual(expect.arrayContaining([1, 2, 3]));
    expect(server.methods().filter((method) => method === 'initialize')).toHaveLength(1);
    expect(server.sessions()).toHaveLength(1);
  });

  it('Principals and targets do not share a session', async () => {
    const one = await start();
    await count(one);
    const other = make();
    const valise = await openValise({ store, allowLocal: true, principal: 'bob' });
    opened.push({ valise, client: other });
    await valise.connect(other, server.url);
    expect(await count(other)).toBe(1);
    const third = await start({}, make());
    expect(await count(third)).toBe(2);
    const query = make();
    const mine = await openValise({ store, allowLocal: true });
    opened.push({ valise: mine, client: query });
    await mine.connect(query, `${server.url}?tenant=2`);
    expect(await count(query)).toBe(1);
    expect(server.sessions()).toHaveLength(3);
  });

  it('Session-scope state lives exactly as long as the transport session', async () => {
    const sent = () => server.heard.at(-1)?.meta['modelcontextprotocol.io/state/session'];
    const one = await start();
    server.state = { cart: ['tea'] };
    await count(one);
    await crash(one);
    const two = await start();
    await count(two);
    expect(sent()).toEqual({ cart: ['tea'] });
    server.lose();
    await count(two);
    expect(sent()).toBeUndefined();
    server.state = { cart: ['coffee'] };
    await count(two);
    await crash(two);
    await count(await start());
    expect(sent()).toEqual({ cart: ['coffee'] });
  });

  it('A client with other capabilities starts its own session and leaves the stored one unchanged', async () => {
    const askable = () => {
      const client = make();
      client.registerCapabilities({ elicitation: {} });
      return client;
    };
    const one = await start();
    server.state = { cart: ['tea'] };
    expect(await count(one)).toBe(1);
    const two = await start({}, askable());
    expect(await count(two)).toBe(1);
    expect(two.transport?.sessionId).toBe(server.sessions()[1]);
    expect(await count(one)).toBe(2);
    await crash(two);
    await crash(one);
    const three = await start();
    expect(await count(three)).toBe(3);
    expect(
      opened
        .at(-1)
        ?.valise.jar.list()
        .map(({ key }) => key),
    ).toEqual(['cart']);
  });

  describe.each(['one process', 'two processes'])('two clients in one session, in %s', (where) => {
    const sent = () => server.heard.at(-1)?.meta['modelcontextprotocol.io/state/session'];
    let ended: string[];
    let valises: ClientValise[];
    let ada: Client;
    let bob: Client;

    const join = async (valise: ClientValise): Promise<Client> => {
      const client = make();
      opened.push({ valise, client });
      valise.on('warning', ({ what }) => expect(what).toMatch('allowLocal'));
      await valise.connect(client, server.url);
      return client;
    };
    const set = async (client: Client, state: object): Promise<void> => {
      server.state = state;
      await count(client);
    };

    beforeEach(async () => {
      const first = await openValise({ store, allowLocal: true });
      const second = where === 'one process' ? first : await openValise({ store, allowLocal: true });
      valises = [...new Set([first, second])];
      ended = [];
      for (const valise of valises) valise.on('deleted', ({ key, by }) => ended.push(`${key} ${by}`));
      ada = await join(first);
      await set(ada, { old: 1 });
      bob = await join(second);
      await count(bob);
      expect(sent()).toEqual({ old: 1 });
      server.lose();
    });

    it('[J-10] A second process that follows into a new session keeps the state that the first has set there', async () => {
      await count(ada);
      await set(ada, { a: 1 });
      await count(bob);
      expect(sent()).toEqual({ a: 1 });
      await set(bob, { b: 1 });
      await set(ada, { c: 1 });
      for (const valise of valises) await valise.jar.refresh();
      for (const client of [ada, bob, await start()]) {
        await count(client);
        expect(sent()).toEqual({ a: 1, b: 1, c: 1 });
      }
      expect(server.sessions()).toHaveLength(1);
      expect(ended).toEqual(valises.map(() => 'old session-end'));
      // What has ended goes from the store behind the calls.
      await expect.poll(async () => (await store.list('jar/')).keys).toHaveLength(1);
    });

    it('[J-10] Two processes that renew at once both store the state of the new session', async () => {
      await Promise.all([count(ada), count(bob)]);
      await set(ada, { a: 1 });
      await set(bob, { b: 1 });
      await count(await start());
      expect(sent()).toEqual({ a: 1, b: 1 });
      expect(ended).toEqual(valises.map(() => 'old session-end'));
    });
  });

  it('[J-10] A client does not take the state of its own session into the one that it follows into', async () => {
    const sent = () => server.heard.at(-1)?.meta['modelcontextprotocol.io/state/session'];
    const shared = store;
    // Its own session is not kept, so that the next process begins another one.
    store = { ...bound(shared), put: async () => Promise.reject(new Error('full')) };
    const one = await start();
    server.state = { old: 1 };
    await count(one);
    store = shared;
    const two = await start();
    server.state = { a: 1 };
    await count(two);
    const [lost, kept] = server.sessions();
    server.intercept = ({ session }) => (session === lost ? { status: 404 } : undefined);
    await count(one);
    expect(one.transport?.sessionId).toBe(kept);
    expect(sent()).toEqual({ a: 1 });
  });

  it('[J-10] A client starts over and ends the stored session if the server was told something different about the jar', async () => {
    const told = () =>
      server.heard
        .filter(({ method }) => method === 'initialize')
        .map(({ params }) => JSON.stringify(params['capabilities']).includes('/state"'));
    const one = await start();
    server.state = { cart: ['tea'] };
    await count(one);
    await crash(one);
    const two = await start({}, make(), false);
    expect(await count(two)).toBe(1);
    expect(two.transport?.sessionId).toBe(server.sessions()[1]);
    expect((await store.list('jar/')).keys).toEqual([]);
    await crash(two);
    const three = await start({}, make(), false);
    expect(await count(three)).toBe(2);
    await crash(three);
    const resumed: unknown[] = [];
    const valise = await openValise({ store, allowLocal: true });
    const four = make();
    opened.push({ valise, client: four });
    valise.on('resumed', (event) => resumed.push(event));
    await valise.connect(four, server.url);
    expect(await count(four)).toBe(1);
    expect(resumed).toEqual([]);
    expect(told()).toEqual([true, false, true]);
  });
});

/** The store's own methods, to be spread. */
function bound(from: Store): Store {
  return {
    get: (key) => from.get(key),
    put: (key, value, options) => from.put(key, value, options),
    delete: (key, options) => from.delete(key, options),
    list: (prefix, options) => from.list(prefix, options),
    lease: (key, ttl) => from.lease(key, ttl),
    close: () => from.close(),
  };
}

async function everything(from: Store): Promise<unknown[]> {
  const { keys } = await from.list('');
  return Promise.all(keys.map((key) => from.get(key)));
}
