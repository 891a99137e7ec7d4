import { type ClientValise, type JarEvents, openValise } from 'mcp-valise/client';
import { generateKey } from 'mcp-valise/seal';
import { memoryStore } from 'mcp-valise/store';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { eraOf, type Request, readState } from '../../src/wire/index.ts';
import { commandOf, type Running, startHttp } from './example.ts';
import {
  type AnyClient,
  type Command,
  callText,
  HOSTS,
  makeClient,
  makeTransport,
  type Place,
} from './hosts.ts';

const VALISE_KEYS = generateKey();
const SESSION = 'modelcontextprotocol.io/state/session';
const SERVER = 'modelcontextprotocol.io/state/server';

const SERVERS = [
  { server: 'v1', over: 'stdio', args: ['--sdk', 'v1'] },
  { server: 'v2', over: 'stdio', args: ['--sdk', 'v2'] },
  { server: 'v1', over: 'HTTP', args: ['--sdk', 'v1'] },
  { server: 'v2', over: 'HTTP', args: ['--sdk', 'v2'] },
  { server: 'v1', over: 'stateless HTTP', args: ['--sdk', 'v1', '--stateless'] },
  { server: 'v2', over: 'stateless HTTP', args: ['--sdk', 'v2', '--stateless'] },
] as const;

// The newer era is v2's alone, and has no sessions: `--stateless` changes nothing in it.
const MATRIX = HOSTS.flatMap((host) =>
  SERVERS.filter(
    ({ server, over }) => host.era === 'legacy' || (server === 'v2' && over !== 'stateless HTTP'),
  ).map((server) => ({ ...host, ...server })),
);

describe.each(MATRIX)(
  'client $client, server $server, $over, $era era',
  ({ client: major, era, over, args }) => {
    const host = { client: major, era } as (typeof HOSTS)[number];
    const isHttp = over !== 'stdio';
    let running: (Running & { readonly url: URL }) | undefined;
    let target: URL | Command;
    let valise: ClientValise;
    let client: AnyClient;
    let names = 0;

    /** A new name, so that tests do not meet. */
    const fresh = (kind = 'k') => `${kind}:${++names}`;

    const connect = async (to: URL | Place | Command = target, through = valise): Promise<AnyClient> => {
      const connected = makeClient(host);
      await through.connect(connected, makeTransport(host, to));
      return connected;
    };
    const ask = async (name: string, parameters: object, of = client): Promise<unknown> =>
      JSON.parse(await callText(of, name, parameters as Record<string, unknown>));
    const change = (scope: 'session' | 'server', set: object, remove: string[] = [], of = client) =>
      ask('change', { scope, set, remove }, of);
    const show = async (scope: 'session' | 'server', of = client) =>
      (await ask('show', { scope }, of)) as Record<string, unknown>;
    /** The requests that the server has seen since the last time. */
    const seen = async (of = client) => (await ask('seen', {}, of)) as Request[];
    const at = (host: string): Place => ({ url: new URL(`http://${host}/mcp`), at: target as URL });

    beforeAll(async () => {
      if (isHttp) running = await startHttp('probe', args, { VALISE_KEYS });
      target = running?.url ?? { ...commandOf('probe', '--stdio', ...args), env: { VALISE_KEYS } };
      valise = await openValise({ store: 'memory:', allowLocal: true, quotas: { keysPerServer: 100 } });
      client = await connect();
    });

    afterAll(async () => {
      await client?.close();
      await valise?.close();
      await running?.stop('SIGTERM');
    });

    afterEach(() => void vi.useRealTimers());

    it('[J-01] the client says that it keeps state', async () => {
      await seen();
      const other = await connect();
      const [first] = await seen(other);
      const { 'io.modelcontextprotocol/clientCapabilities': announced } = first?.params?._meta ?? {};
      const capabilities = era === 'modern' ? announced : first?.params?.['capabilities'];
      expect(first && eraOf(first)).toBe(era);
      expect(capabilities).toMatchObject({ state: {}, extensions: { 'dev.valise/state': {} } });
      await other.close();
    });

    it('[J-02] [J-03] what a result sets comes back, in both scopes', async () => {
      const [a, b] = [fresh(), fresh()];
      await change('session', { [a]: { items: ['cucumber'], price: 100 } });
      await change('server', { [b]: 'kept' });
      expect(await show('session')).toMatchObject({ [a]: { items: ['cucumber'], price: 100 } });
      expect(await show('server')).toMatchObject({ [b]: 'kept' });
      expect(await show('server')).not.toHaveProperty([a]);
    });

    it('sealed values come back too, and the client cannot read them', async () => {
      const name = fresh('sealed');
      await change('session', { [name]: 'a secret' });
      expect(await show('session')).toMatchObject({ [name]: 'a secret' });
      const held = valise.jar.export({ key: name }).entries[0];
      expect(held?.value).toMatch(/^v1\./);
    });

    it('[J-04] the client reads both spellings and writes the one without http://', async () => {
      const [a, b] = [fresh(), fresh()];
      await ask('answer', { meta: { [`http://${SESSION}`]: { [a]: 1 }, [SERVER]: { [b]: 2 } } });
      expect(await show('session')).toMatchObject({ [a]: 1 });
      expect(await show('server')).toMatchObject({ [b]: 2 });
      for (const { params } of await seen())
        expect(Object.keys(params?._meta ?? {}).filter((key) => key.startsWith('http:'))).toEqual([]);
    });

    it('[J-05] null deletes', async () => {
      const name = fresh();
      await change('session', { [name]: 1 });
      await change('session', {}, [name]);
      expect(await show('session')).not.toHaveProperty([name]);
      expect(valise.jar.list({ key: name })).toEqual([]);
    });

    it('[J-06] [J-07] names that a result does not mention stay; one that it mentions is replaced whole', async () => {
      const [a, b] = [fresh(), fresh()];
      await change('session', { [a]: { x: 1, y: 2 }, [b]: 'stays' });
      await change('session', { [a]: { z: 3 } });
      const held = await show('session');
      expect(held[a]).toEqual({ z: 3 });
      expect(held[b]).toBe('stays');
    });

    it('[J-08] state goes with every request', async () => {
      const [a, b] = [fresh(), fresh()];
      await change('session', { [a]: 1 });
      await change('server', { [b]: 2 });
      await seen();
      await client.listTools(undefined, { cacheMode: 'refresh' } as never);
      await client.listPrompts(undefined, { cacheMode: 'refresh' } as never);
      await client.getPrompt({ name: 'greet', arguments: { name: 'Ann' } });
      await client.complete({
        ref: { type: 'ref/prompt', name: 'greet' },
        argument: { name: 'name', value: 'A' },
      });
      if (era === 'legacy') await client.ping();
      const requests = await seen();
      expect(requests.map(({ method }) => method)).toEqual(
        expect.arrayContaining([
          'tools/list',
          'prompts/list',
          'prompts/get',
          'completion/complete',
          'tools/call',
        ]),
      );
      for (const { params } of requests) {
        expect(readState(params?._meta)).toMatchObject({ session: { [a]: 1 }, server: { [b]: 2 } });
      }
    });

    it('[J-08] server scope goes with the very first request, session scope not', async () => {
      const [a, b] = [fresh(), fresh()];
      await change('session', { [a]: 1 });
      await change('server', { [b]: 2 });
      await seen();
      const other = await connect();
      const [first] = await seen(other);
      const { session, server } = readState(first?.params?._meta);
      expect(server).toMatchObject({ [b]: 2 });
      expect(session).toBeUndefined();
      await other.close();
    });

    it('[J-09] without state nothing is sent', async () => {
      const empty = await openValise({ store: 'memory:', allowLocal: true });
      await seen();
      const other = await connect(target, empty);
      await ask('show', { scope: 'session' }, other);
      for (const { params } of await seen(other)) {
        expect(Object.keys(params?._meta ?? {}).filter((key) => /\/state($|\/)/.test(key))).toEqual([]);
      }
      await other.close();
      await empty.close();
    });

    it('[J-10] session scope ends with its session, and a new session starts without', async () => {
      const [a, b] = [fresh(), fresh()];
      const first = await connect();
      await change('session', { [a]: 1 }, [], first);
      await change('server', { [b]: 2 }, [], first);
      await first.close();
      const second = await connect();
      expect(await show('session', second)).toEqual({});
      expect(await show('server', second)).toMatchObject({ [b]: 2 });
      await second.close();
    });

    it('[J-11] server scope stays when the client starts again', async () => {
      const store = memoryStore();
      const name = fresh('sealed');
      for (const expected of [{}, { [name]: 'kept' }]) {
        const host = await openValise({ store, allowLocal: true });
        const connected = await connect(target, host);
        expect(await show('server', connected)).toEqual(expected);
        await change('server', { [name]: 'kept' }, [], connected);
        await connected.close();
        await host.close();
      }
    });

    it('[J-12] the client may clear at any time', async () => {
      const [a, b, c] = [fresh(), fresh(), fresh()];
      await change('session', { [a]: 1, [b]: 2 });
      await change('server', { [c]: 3 });
      await valise.jar.clear({ key: a });
      expect(Object.keys(await show('session'))).toEqual(expect.not.arrayContaining([a]));
      await valise.jar.clear({ scope: 'session' });
      expect(await show('session')).toEqual({});
      expect(await show('server')).toMatchObject({ [c]: 3 });
      await valise.jar.clear();
      expect(await show('server')).toEqual({});
    });

    it('[J-18] keeps 4,096 bytes a key, and 20 keys of a server', async () => {
      const sizes = Object.fromEntries(Array.from({ length: 20 }, () => [fresh(), 'x']));
      const big = fresh();
      await change('server', { ...sizes, [big]: 'x'.repeat(4096 - big.length - 2) });
      expect(await show('server')).toMatchObject(sizes);
      expect(valise.jar.list({ key: big })).toMatchObject([{ size: 4096 }]);
    });

    it('[J-19] max-age: gone when its time is over', async () => {
      const [brief, long] = [fresh('brief'), fresh()];
      await change('server', { [brief]: 1, [long]: 2 });
      expect(await show('server')).toMatchObject({ [brief]: 1, [long]: 2 });
      vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 61_000 });
      expect(await show('server')).not.toHaveProperty([brief]);
      expect(await show('server')).toHaveProperty([long]);
      vi.setSystemTime(Date.now() + 34_560_000_000);
      expect(await show('server')).toEqual({});
    });

    it('[J-21] [J-22] method-scope: sent with its methods alone, until it is set without', async () => {
      const name = fresh('tools');
      const sentWith = async () => {
        await seen();
        await client.listTools(undefined, { cacheMode: 'refresh' } as never);
        await client.listPrompts(undefined, { cacheMode: 'refresh' } as never);
        const requests = await seen();
        return requests
          .filter(({ params }) => readState(params?._meta).session?.[name] !== undefined)
          .map(({ method }) => method);
      };
      await change('session', { [name]: 1 });
      expect(await sentWith()).toEqual(['tools/list', 'tools/call']);
      await ask('answer', { meta: { [SESSION]: { [name]: 2 } } });
      expect(await sentWith()).toEqual(['tools/list', 'prompts/list', 'tools/call']);
    });

    it('[J-23] path scope: down to one tool, one prompt, one completion', async () => {
      const [tool, prompt, completion] = [fresh('show'), fresh('greet'), fresh('complete')];
      await change('session', { [tool]: 1, [prompt]: 2, [completion]: 3 });
      await seen();
      await show('session');
      await client.getPrompt({ name: 'greet', arguments: { name: 'Ann' } });
      await client.complete({
        ref: { type: 'ref/prompt', name: 'greet' },
        argument: { name: 'name', value: 'A' },
      });
      const sent = (await seen()).map(({ method, params }) => {
        const held = readState(params?._meta).session ?? {};
        return [method, [tool, prompt, completion].filter((name) => held[name] !== undefined)];
      });
      expect(sent).toEqual([
        ['tools/call', [tool]],
        ['prompts/get', [prompt]],
        ['completion/complete', [completion]],
        ['tools/call', []],
      ]);
    });

    it('[J-25] bad state in a result never fails the call, and an event says why', async () => {
      const refused: JarEvents['refused'][] = [];
      const off = valise.jar.on('refused', (event) => refused.push(event));
      const good = fresh();
      const bad = [
        { [SESSION]: 'text' },
        { [SERVER]: [1] },
        { 'dev.valise/state': 7 },
        { [SESSION]: { [good]: JSON.parse(`${'['.repeat(100)}${']'.repeat(100)}`) } },
        {
          [SESSION]: { [good]: 1 },
          'dev.valise/state-attributes': { session: { [good]: { 'max-age': 0 } } },
        },
      ];
      for (const meta of bad) expect(await ask('answer', { meta })).toBe('answered');
      off();
      expect(refused).toHaveLength(bad.length);
      expect(await show('session')).not.toHaveProperty([good]);
      await change('session', { __proto__x: 1, constructor: 2 });
      expect(await show('session')).toMatchObject({ constructor: 2 });
    });

    it.runIf(!isHttp)('[J-17] [J-26] a stdio server is its file and its package', async () => {
      const name = fresh();
      await change('server', { [name]: 1 });
      const [entry] = valise.jar.list({ key: name });
      expect(entry?.server).toMatch(/^\/.*\/test\/e2e\/probe\.ts#mcp-valise@\d+\.\d+\.\d+$/);
    });

    describe.runIf(isHttp)('over HTTP', () => {
      it('[J-13] [J-15] state goes to the server that set it, not to its neighbours', async () => {
        const name = fresh();
        const www = await connect(at('www.example.com'));
        await change('server', { [name]: 1 }, [], www);
        for (const [where, expected] of [
          ['www.example.com', { [name]: 1 }],
          ['other.example.com', {}],
          ['example.com', {}],
          ['sub.www.example.com', {}],
          ['www.example.org', {}],
        ] as const) {
          const other = await connect(at(where));
          expect(await show('server', other)).toEqual(expected);
          await other.close();
        }
        await www.close();
        await valise.jar.clear({ server: 'www.example.com' });
      });

      it('[J-14] a server’s name is its host: no scheme, no port, no final dot, in lower case', async () => {
        const name = fresh();
        const first = await connect(at('Shop.Example.com'));
        await change('server', { [name]: 1 }, [], first);
        expect(valise.jar.list({ key: name })).toMatchObject([{ server: 'shop.example.com' }]);
        for (const same of ['shop.example.com:8443', 'shop.example.com.']) {
          const other = await connect(at(same));
          expect(await show('server', other)).toEqual({ [name]: 1 });
          await other.close();
        }
        await first.close();
        await valise.jar.clear({ server: 'shop.example.com' });
      });

      it('[J-16] nothing is kept for an address or for localhost: the server keeps it, or says that it cannot', async () => {
        const strict = await openValise({ store: 'memory:' });
        const refused: JarEvents['refused'][] = [];
        strict.jar.on('refused', (event) => refused.push(event));
        for (const where of ['127.0.0.1', 'localhost', '[::1]', '2130706433', 'printer', 'shop.internal']) {
          const local = await connect(at(where), strict);
          expect(await callText(local, 'change', { scope: 'server', set: { a: 1 } })).toContain(
            'does not carry state',
          );
          expect(await ask('answer', { meta: { [SERVER]: { a: 1 } } }, local)).toBe('answered');
          expect(await show('server', local)).toEqual({});
          await local.close();
        }
        expect(strict.jar.list()).toEqual([]);
        expect(refused.map(({ reason }) => reason)).toEqual(Array(6).fill('server'));
        await strict.close();
      });

      it('[J-20] server-scope: sent to the domain and what is below it', async () => {
        const name = fresh('wide');
        const shop = await connect(at('shop.example.com'));
        await change('server', { [name]: 1 }, [], shop);
        for (const [where, expected] of [
          ['example.com', { [name]: 1 }],
          ['other.example.com', { [name]: 1 }],
          ['example.org', {}],
          ['notexample.com', {}],
        ] as const) {
          const other = await connect(at(where));
          expect(await show('server', other)).toEqual(expected);
          await other.close();
        }
        const foreign = await connect(at('shop.example.org'));
        await change('server', { [fresh('wide')]: 1 }, [], foreign);
        expect(await show('server', foreign)).toEqual({});
        await Promise.all([shop.close(), foreign.close()]);
      });
    });
  },
);
