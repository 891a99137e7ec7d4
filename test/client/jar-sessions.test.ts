import { setImmediate } from 'node:timers/promises';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import type { Store } from 'mcp-valise/client';
import { memoryStore } from 'mcp-valise/store';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type ClientMiddleware, Connection } from '../../src/client/connection.ts';
import type { ClientEvents } from '../../src/client/events.ts';
import { targetOf } from '../../src/client/identity/target.ts';
import { ClientJar } from '../../src/client/jar/jar.ts';
import { type JarPart, jarPart } from '../../src/client/jar/middleware.ts';
import { Events } from '../../src/core/events.ts';
import { openDirect } from './direct.ts';
import { type Hosts, openHosts, setting, stateOf } from './hosts.ts';

const SHOP = 'https://shop.example.com/mcp';

let hosts: Hosts;
let store: Store;
beforeEach(async () => {
  hosts = await openHosts();
  store = memoryStore();
  hosts.respond = ({ method, params }) =>
    method === 'tools/call' ? setting('legacy', { session: { [String(params['name'])]: 1 } }) : {};
});
afterEach(() => hosts.close());

interface Opened {
  readonly jar: ClientJar;
  readonly part: JarPart;
  readonly connection: Connection;
  readonly client: Client;
  /** Calls a tool, in a session where one is named; the session state that went along. */
  call(name: string, session?: string): Promise<object | undefined>;
  close(): Promise<void>;
}

/** A client whose calls a middleware outside of the jar gives to sessions, as data-layer sessions do. */
async function open(url = SHOP, shared?: ClientJar): Promise<Opened> {
  const events = new Events<ClientEvents>();
  const jar = shared ?? new ClientJar({ store, principal: '', events });
  await jar.refresh();
  const part = jarPart(jar, {});
  let current: string | undefined;
  const chooser: ClientMiddleware = (call, next) => {
    call.session = current;
    return next();
  };
  const transport = new StreamableHTTPClientTransport(new URL(url), { fetch: hosts.fetch });
  const connection = new Connection(transport, {
    owner: {},
    target: targetOf(transport),
    principal: '',
    parts: [part],
    stack: [chooser, part.middleware],
  });
  await connection.open();
  const client = new Client({ name: 'test', version: '1.0.0' });
  await client.connect(transport);
  return {
    jar,
    part,
    connection,
    client,
    async call(name, session) {
      current = session;
      const done = client.callTool({ name });
      current = undefined;
      await done;
      return stateOf(hosts.last('tools/call').meta).session;
    },
    async close() {
      await client.close();
      await jar.close();
    },
  };
}

describe('session-scope state of a stored session', () => {
  it('Another process finds the state of a stored session until the session ends', async () => {
    const one = await open();
    await one.part.bindSession(one.connection, 'transport-1');
    await one.call('a');
    expect(one.jar.list()).toMatchObject([{ scope: 'session', key: 'a', session: 'transport-1' }]);
    await one.close();
    const two = await open();
    expect(two.jar.list()).toMatchObject([{ scope: 'session', key: 'a', session: 'transport-1' }]);
    expect(await two.call('x')).toBeUndefined();
    await two.part.bindSession(two.connection, 'transport-1');
    expect(await two.call('b')).toEqual({ a: 1, x: 1 });
    await two.part.endSession(two.connection);
    expect(two.jar.list()).toEqual([]);
    expect(await two.call('c')).toBeUndefined();
    await two.close();
    expect((await store.list('')).keys).toEqual([]);
  });

  it('[J-10] The state of a stored session ends for all its connections, and a new session with the same key starts empty', async () => {
    const one = await open();
    const two = await open(SHOP, one.jar);
    for (const { part, connection } of [one, two]) await part.bindSession(connection, 'transport-1');
    await one.call('a');
    await one.part.endSession(one.connection);
    for (const { part, connection } of [one, two]) await part.bindSession(connection, 'transport-1');
    expect(await one.call('b')).toBeUndefined();
    expect(await two.call('c')).toEqual({ b: 1 });
    expect(await one.call('d')).toEqual({ b: 1, c: 1 });
    await two.close();
    await one.close();
  });

  it('[J-18] The quota applies when the state of a connection moves to a stored session', async () => {
    const one = await open();
    const names = Array.from({ length: 40 }, (_, at) => `k${at}`);
    for (const name of names) await one.call(`one ${name}`);
    await one.part.bindSession(one.connection, 'transport-1');
    await one.part.bindSession(one.connection, undefined);
    for (const name of names) await one.call(`two ${name}`);
    await one.part.bindSession(one.connection, 'transport-1');
    expect(one.jar.list({ scope: 'session' })).toHaveLength(50);
    await one.close();
  });

  it('[J-10] The end of a session is reported once, even if the next one starts before it is stored', async () => {
    const slow: Store = {
      get: (key) => store.get(key),
      put: (...args) => store.put(...args),
      delete: (...args) => setImmediate().then(() => store.delete(...args)),
      list: (...args) => store.list(...args),
      lease: (...args) => store.lease(...args),
      close: () => store.close(),
    };
    const { jar, at, log } = await openDirect({ store: slow });
    const shop = at(SHOP);
    await jar.bindSession(shop.view, 'transport-1');
    await shop.set({ session: { a: 1 } });
    jar.beginSession(shop.view);
    await jar.endSession(shop.view, 'transport-1');
    expect(log).toEqual(['set a', 'deleted a']);
    expect((await store.list('')).keys).toEqual([]);
  });

  it('[J-10] Session-scope state ends when the transport starts a new session', async () => {
    hosts.sessionId = 'one';
    const one = await open();
    await one.part.bindSession(one.connection, 'one');
    await one.call('a');
    (one.client.transport as unknown as { _sessionId: string })._sessionId = 'two';
    expect(await one.call('b')).toBeUndefined();
    expect(one.jar.list().map(({ key, session }) => [key, session])).toEqual([['b', undefined]]);
    await expect.poll(async () => (await store.list('')).keys).toEqual([]);
    await one.part.bindSession(one.connection, 'one');
    expect(await one.call('c')).toEqual({ b: 1 });
    await one.close();
  });

  it('[J-10] Session-scope state follows the session of each call, also with concurrent calls', async () => {
    const one = await open();
    await Promise.all([one.call('a', 'red'), one.call('b', 'blue'), one.call('own')]);
    expect(await one.call('a2', 'red')).toEqual({ a: 1 });
    expect(await one.call('b2', 'blue')).toEqual({ b: 1 });
    expect(await one.call('own2')).toEqual({ own: 1 });
    await one.close();
    const two = await open();
    expect(await two.call('a3', 'red')).toEqual({ a: 1, a2: 1 });
    await two.part.endSession(two.connection, 'red');
    expect(await two.call('a4', 'red')).toBeUndefined();
    expect(await two.call('b3', 'blue')).toEqual({ b: 1, b2: 1 });
    await two.close();
  });

  it('[J-13] Two servers do not share session-scope state under the same key', async () => {
    const one = await open();
    await one.call('a', 'red');
    const two = await open('https://other.example.com');
    expect(await two.call('b', 'red')).toBeUndefined();
    await one.close();
    await two.close();
  });

  it('Responses to calls of an ended session set no state', async () => {
    const one = await open();
    const refused: unknown[] = [];
    one.jar.on('refused', ({ key, reason }) => refused.push([key, reason]));
    let release = () => {};
    const { respond } = hosts;
    let arrived = () => {};
    const waiting = new Promise<void>((resolve) => {
      arrived = resolve;
    });
    hosts.respond = async (seen) => {
      arrived();
      await new Promise<void>((resolve) => {
        release = resolve;
      });
      return respond(seen);
    };
    const slow = one.call('late', 'red');
    await waiting;
    await one.part.endSession(one.connection, 'red');
    release();
    await slow;
    expect(refused).toEqual([['late', 'session-over']]);
    expect(one.jar.list()).toEqual([]);
    hosts.respond = respond;
    await one.close();
  });
});
