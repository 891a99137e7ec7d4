import { Client } from '@modelcontextprotocol/client';
import { type ClientEvents, type ClientValise, openValise, type Store } from 'mcp-valise/client';
import { memoryStore } from 'mcp-valise/store';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { z } from 'zod';
import { connect, type Hosts, KINDS, openHosts, setting, stateOf } from './hosts.ts';

const SHOP = 'https://shop.example.com/mcp';

let hosts: Hosts;
let store: Store;
let valise: ClientValise;
beforeEach(async () => {
  hosts = await openHosts();
  store = memoryStore();
  valise = await openValise({ store });
});
afterEach(async () => {
  await valise.close();
  await hosts.close();
});

/** Keeps the events of one name. */
function heard<Name extends 'set' | 'deleted' | 'evicted' | 'refused'>(name: Name): ClientEvents[Name][] {
  const events: ClientEvents[Name][] = [];
  valise.on(name, (event) => events.push(event));
  return events;
}

describe.each(KINDS)('the jar of a client of kind $kind', (kind) => {
  const { era } = kind;
  const sets = (state: { session?: object; server?: object }, attributes?: object) => {
    hosts.respond = ({ method }) => (method === 'tools/call' ? setting(era, state, attributes) : {});
  };

  it('[J-01] A client announces that it carries state', async () => {
    const client = await connect(valise, hosts, SHOP, kind);
    const capabilities =
      era === 'legacy'
        ? hosts.last('initialize').params['capabilities']
        : hosts.last().meta['io.modelcontextprotocol/clientCapabilities'];
    expect(capabilities).toMatchObject({
      state: {},
      extensions: { 'dev.valise/state': {} },
      experimental: { 'dev.valise/state': {} },
    });
    await client.close();
  });

  it('[J-02][J-03] A client takes state from a result and sends it back in its scope', async () => {
    const client = await connect(valise, hosts, SHOP, kind);
    const cart = { items: ['cucumber', 'tomato'], price: 100.5 };
    sets({ session: { 'Cart Contents': cart, 'Coupon Code': 'XYZZY' }, server: { visits: 1 } });
    await client.callTool({ name: 'add' });
    expect(stateOf(hosts.last().meta)).toEqual({});
    await client.listTools();
    await client.callTool({ name: 'add' });
    expect(stateOf(hosts.last().meta)).toEqual({
      session: { 'Cart Contents': cart, 'Coupon Code': 'XYZZY' },
      server: { visits: 1 },
    });
    await client.close();
  });

  it('[J-02][J-08] Every result may set state, and every request carries it', async () => {
    hosts.respond = ({ method }) =>
      setting(era, { session: { [`s ${method}`]: true }, server: { [`p ${method}`]: true } });
    const client = await connect(valise, hosts, SHOP, kind);
    if (era === 'legacy') await client.ping();
    await client.listPrompts();
    await client.getPrompt({ name: 'p' });
    await client.request({ method: 'vendor/thing', params: {} }, z.looseObject({}));
    await client.callTool({ name: 'last' });
    const first = era === 'legacy' ? ['initialize', 'ping'] : ['server/discover'];
    const before = [...first, 'prompts/list', 'prompts/get', 'vendor/thing'];
    expect(stateOf(hosts.last('tools/call').meta)).toEqual({
      session: Object.fromEntries(before.map((method) => [`s ${method}`, true])),
      server: Object.fromEntries(before.map((method) => [`p ${method}`, true])),
    });
    for (const [at, method] of before.entries()) {
      const sent = before.slice(0, at).map((one) => [`p ${one}`, true]);
      expect(stateOf(hosts.last(method).meta).server ?? {}).toEqual(Object.fromEntries(sent));
    }
    await client.close();
  });

  it('[J-05][J-06][J-07] Null deletes an entry, other entries stay, and values are replaced as a whole', async () => {
    const client = await connect(valise, hosts, SHOP, kind);
    for (const scope of ['session', 'server'] as const) {
      sets({ [scope]: { a: { x: 1, y: 2 }, b: 'stays', c: 0 } });
      await client.callTool({ name: 'one' });
      sets({ [scope]: { a: { z: 3 }, c: null, never: null } });
      await client.callTool({ name: 'two' });
      sets({});
      await client.callTool({ name: 'three' });
      expect(stateOf(hosts.last().meta)[scope]).toEqual({ a: { z: 3 }, b: 'stays' });
    }
    await client.close();
  });

  it('[J-09] A request does not carry an empty scope', async () => {
    const client = await connect(valise, hosts, SHOP, kind);
    sets({ session: {}, server: { only: 1 } });
    await client.callTool({ name: 'one' });
    sets({ server: { only: null } });
    await client.callTool({ name: 'two' });
    expect(stateOf(hosts.last().meta)).toEqual({ server: { only: 1 } });
    await client.callTool({ name: 'three' });
    expect(Object.keys(hosts.last().meta).filter((key) => key.includes('state'))).toEqual([]);
    await client.close();
  });

  it('[J-10][J-11] A new connection sends server-scope state and no session-scope state', async () => {
    const gone = heard('deleted');
    const client = await connect(valise, hosts, SHOP, kind);
    sets({ session: { cart: 1 }, server: { visits: 1 } });
    await client.callTool({ name: 'one' });
    await client.close();
    expect(gone).toEqual([{ server: 'shop.example.com', scope: 'session', key: 'cart', by: 'session-end' }]);
    sets({});
    const again = await connect(valise, hosts, SHOP, kind);
    await again.callTool({ name: 'two' });
    expect(stateOf(hosts.last().meta)).toEqual({ server: { visits: 1 } });
    await again.close();
  });

  it('[J-11] Server-scope state outlives the client', async () => {
    const client = await connect(valise, hosts, SHOP, kind);
    sets({ server: { profile: { theme: 'dark' }, gone: 1 } });
    await client.callTool({ name: 'one' });
    sets({ server: { gone: null } });
    await client.callTool({ name: 'two' });
    await client.close();
    await valise.close();
    valise = await openValise({ store });
    const again = await connect(valise, hosts, SHOP, kind);
    const first = hosts.last(era === 'legacy' ? 'initialize' : 'server/discover');
    expect(stateOf(first.meta)).toEqual({ server: { profile: { theme: 'dark' } } });
    await again.close();
  });

  it('[J-13][J-15] State is not sent to another server', async () => {
    sets({ session: { cart: 1 }, server: { visits: 1 } });
    const shop = await connect(valise, hosts, SHOP, kind);
    await shop.callTool({ name: 'one' });
    sets({});
    for (const url of [
      'https://other.example.com/mcp',
      'https://example.com/mcp',
      'https://a.shop.example.com/mcp',
      'https://shop.example.org/mcp',
    ]) {
      const other = await connect(valise, hosts, url, kind);
      await other.callTool({ name: 'two' });
      await other.close();
      for (const { host, meta } of hosts.seen.filter(({ host }) => host !== 'shop.example.com'))
        expect([host, stateOf(meta)]).toEqual([host, {}]);
    }
    await shop.close();
  });

  it('[J-14] State belongs to the host name, whatever the scheme, port, path and spelling', async () => {
    sets({ server: { visits: 1 } });
    const client = await connect(valise, hosts, 'http://SHOP.example.com.:8443/elsewhere', kind);
    await client.callTool({ name: 'one' });
    const again = await connect(valise, hosts, SHOP, kind);
    await again.callTool({ name: 'two' });
    expect(stateOf(hosts.last().meta)).toEqual({ server: { visits: 1 } });
    await client.close();
    await again.close();
  });

  it('[J-16] A client stores no state for an IP address and does not announce the jar there', async () => {
    const refused = heard('refused');
    sets({ session: { cart: 1 }, server: { visits: 1 } });
    const client = await connect(valise, hosts, 'http://127.0.0.1/mcp', kind);
    await client.callTool({ name: 'one' });
    await client.callTool({ name: 'two' });
    for (const { params, meta } of hosts.seen) {
      expect(stateOf(meta)).toEqual({});
      expect(JSON.stringify({ params, meta })).not.toContain('dev.valise/state');
    }
    expect(valise.jar.list()).toEqual([]);
    expect(refused[0]).toMatchObject({
      server: '127.0.0.1',
      scope: 'session',
      key: 'cart',
      reason: 'server',
    });
    await client.close();
  });

  it('[J-16] With allowLocal, a client stores state for an IP address and warns once', async () => {
    const local = await openValise({ store: memoryStore(), allowLocal: true });
    const warnings: string[] = [];
    local.on('warning', ({ code, what }) => warnings.push(`${code}: ${what}`));
    sets({ server: { visits: 1 } });
    for (const url of ['http://127.0.0.1:1/mcp', 'http://127.1:2/mcp', 'http://localhost/mcp']) {
      const client = await connect(local, hosts, url, kind);
      await client.callTool({ name: 'one' });
      await client.close();
    }
    expect(local.jar.list().map(({ server }) => server)).toEqual(['127.0.0.1', 'localhost']);
    expect(warnings).toEqual([expect.stringMatching(/^local-state: .*allowLocal/)]);
    await local.close();
  });

  it('The process prints a warning that has no listener', async () => {
    const printed = vi.spyOn(process, 'emitWarning').mockImplementation(() => {});
    const local = await openValise({ store: memoryStore(), allowLocal: true });
    sets({ server: { visits: 1 } });
    const client = await connect(local, hosts, 'http://127.0.0.1:1/mcp', kind);
    await client.callTool({ name: 'one' });
    expect(printed.mock.calls).toEqual([
      [expect.stringMatching(/because allowLocal is on.*for development only/), { type: 'ValiseWarning' }],
    ]);
    printed.mockRestore();
    await client.close();
    await local.close();
  });

  it('[J-21][J-23] State with a method scope is sent only with the requests that the scope covers', async () => {
    const client = await connect(valise, hosts, SHOP, kind);
    const scopes = {
      tools: 'tools',
      slash: 'tools/',
      call: 'tools/call',
      one: 'tools/call/one',
      prompt: 'prompts/get/hello',
      ref: 'completion/complete/ref/prompt/hello',
      uri: 'completion/complete/ref/resource/file:///a',
      tool: 'tool',
    };
    const attributes = Object.fromEntries(
      Object.entries(scopes).map(([name, scope]) => [name, { 'method-scope': scope }]),
    );
    const values = { ...Object.fromEntries(Object.keys(scopes).map((name) => [name, 1])), all: 1 };
    sets({ server: values, session: values }, { server: attributes, session: attributes });
    await client.callTool({ name: 'set' });
    sets({});
    const names = () => {
      const { server = {}, session = {} } = stateOf(hosts.last().meta);
      expect(Object.keys(session)).toEqual(Object.keys(server));
      return Object.keys(server).sort();
    };
    await client.callTool({ name: 'one' });
    expect(names()).toEqual(['all', 'call', 'one', 'slash', 'tools']);
    await client.callTool({ name: 'two' });
    expect(names()).toEqual(['all', 'call', 'slash', 'tools']);
    await client.request({ method: 'toolsmith/x', params: {} }, z.looseObject({}));
    expect(names()).toEqual(['all']);
    await client.request({ method: 'tools/list', params: { cursor: 'c' } }, z.looseObject({}));
    expect(names()).toEqual(['all', 'slash', 'tools']);
    await client.getPrompt({ name: 'hello' });
    expect(names()).toEqual(['all', 'prompt']);
    const argument = { name: 'x', value: '' };
    await client.complete({ ref: { type: 'ref/prompt', name: 'hello' }, argument });
    expect(names()).toEqual(['all', 'ref']);
    await client.complete({ ref: { type: 'ref/resource', uri: 'file:///a' }, argument });
    expect(names()).toEqual(['all', 'uri']);
    await client.close();
  });

  it('[J-20] State with a server scope is sent to the servers of that domain', async () => {
    const refused = heard('refused');
    sets(
      { server: { site: 1, own: 1, wide: 1, other: 1 } },
      {
        server: {
          site: { 'server-scope': '.Example.com' },
          wide: { 'server-scope': 'com' },
          other: { 'server-scope': 'other.example.com' },
        },
      },
    );
    const shop = await connect(valise, hosts, SHOP, kind);
    await shop.callTool({ name: 'one' });
    expect(refused.map(({ key, reason }) => [key, reason])).toEqual([
      ['wide', 'server-scope'],
      ['other', 'server-scope'],
    ]);
    sets({});
    const seenBy = async (url: string) => {
      const client = await connect(valise, hosts, url, kind);
      await client.callTool({ name: 'two' });
      await client.close();
      return stateOf(hosts.last().meta).server;
    };
    expect(await seenBy(SHOP)).toEqual({ site: 1, own: 1 });
    expect(await seenBy('https://example.com')).toEqual({ site: 1 });
    expect(await seenBy('https://a.b.example.com')).toEqual({ site: 1 });
    expect(await seenBy('https://notexample.com')).toBeUndefined();
    sets({ server: { site: null } });
    await shop.callTool({ name: 'three' });
    sets({});
    expect(await seenBy('https://a.b.example.com')).toBeUndefined();
    await shop.close();
  });

  it('[J-22] Overwriting an entry replaces its attributes', async () => {
    const client = await connect(valise, hosts, SHOP, kind);
    sets(
      { server: { a: 1, b: 1 } },
      { server: { a: { 'method-scope': 'prompts', 'max-age': 60 }, b: { 'server-scope': 'example.com' } } },
    );
    await client.callTool({ name: 'one' });
    sets({ server: { a: 2, b: 2 } });
    await client.callTool({ name: 'two' });
    expect(valise.jar.list().map(({ key, attributes }) => [key, attributes])).toEqual([
      ['a', {}],
      ['b', {}],
    ]);
    await client.callTool({ name: 'three' });
    expect(stateOf(hosts.last().meta).server).toEqual({ a: 2, b: 2 });
    const other = await connect(valise, hosts, 'https://other.example.com', kind);
    await other.callTool({ name: 'four' });
    expect(stateOf(hosts.last().meta)).toEqual({});
    await client.close();
    await other.close();
  });

  it('[J-25] Invalid state never fails a call', async () => {
    const refused = heard('refused');
    const client = await connect(valise, hosts, SHOP, kind);
    sets({ session: 'no dictionary' as never, server: [1] as never }, 7 as never);
    expect(await client.callTool({ name: 'one' })).toMatchObject({ content: [{ text: 'done' }] });
    sets(
      { server: { a: 1, b: 1, c: 1 } },
      { server: { a: { 'max-age': 0 }, b: 'secret', c: { 'method-scope': 5 } } },
    );
    expect(await client.callTool({ name: 'two' })).toMatchObject({ content: [{ text: 'done' }] });
    expect(refused.map(({ scope, key, reason }) => [scope, key, reason])).toEqual([
      ['session', undefined, 'wrong-type'],
      ['server', undefined, 'wrong-type'],
      ['server', 'a', 'bad-value'],
      ['server', 'b', 'wrong-type'],
      ['server', 'c', 'wrong-type'],
    ]);
    expect(valise.jar.list()).toEqual([]);
    await client.close();
  });

  it('[J-25] The refused event says what was wrong, the limit and the size, without the value', async () => {
    const refused = heard('refused');
    const client = await connect(valise, hosts, SHOP, kind);
    const deep = Array.from({ length: 70 }).reduce((inner) => [inner], 'secret' as unknown);
    const many = Object.fromEntries(Array.from({ length: 10_001 }, (_, at) => [`secret ${at}`, at]));
    const details = async (state: object, attributes?: object) => {
      refused.length = 0;
      sets(state, attributes);
      await client.callTool({ name: 'one' });
      return refused.map(({ detail }) => detail);
    };
    const attribute = (one: unknown) => details({ server: { a: 1 } }, { server: { a: one } });
    const all = [
      await details({ server: { a: deep } }),
      await details({ session: many }),
      await details({ session: 'secret' }),
      await details({ server: ['secret'] }),
      await details({ server: { a: 'secret'.repeat(2000) } }),
      await attribute({ 'max-age': 0 }),
      await attribute({ 'max-age': 'secret' }),
      await attribute({ 'method-scope': '/secret' }),
      await attribute({ 'server-scope': 'secret secret' }),
      await attribute('secret'),
    ].flat();
    expect(all).toEqual([
      expect.stringMatching(/nested deeper than 64 levels/),
      expect.stringMatching(/^10001 names .*session; 10000 are allowed/),
      expect.stringMatching(/session must be an object; a text of 6 characters came/),
      expect.stringMatching(/server must be an object; a list came/),
      expect.stringMatching(/takes 12003 bytes; 8192 are allowed/),
      expect.stringMatching(/max-age must be a whole number of seconds from 1 to 34560000; 0 came/),
      expect.stringMatching(/max-age must be .*; a text of 6 characters came/),
      expect.stringMatching(/method-scope must be a method .* 2048 characters; a text of 7 characters came/),
      expect.stringMatching(/server-scope must be a domain .*; a text of 13 characters came/),
      expect.stringMatching(/attributes must be an object; a text of 6 characters came/),
    ]);
    expect(all.join(' ')).not.toMatch(/secret/);
    await client.close();
  });
});

describe('the jar', () => {
  const sets = (state: { session?: object; server?: object }, attributes?: object) => {
    hosts.respond = ({ method }) => (method === 'tools/call' ? setting('legacy', state, attributes) : {});
  };

  it('[J-04] The jar reads both spellings of the older keys and writes that of the examples', async () => {
    const client = await connect(valise, hosts, SHOP);
    hosts.respond = () => ({
      _meta: {
        'http://modelcontextprotocol.io/state/session': { cart: 1 },
        'http://modelcontextprotocol.io/state/server': { visits: 1 },
      },
    });
    await client.callTool({ name: 'one' });
    await client.callTool({ name: 'two' });
    expect(hosts.last().meta).toMatchObject({
      'modelcontextprotocol.io/state/session': { cart: 1 },
      'modelcontextprotocol.io/state/server': { visits: 1 },
    });
    expect(Object.keys(hosts.last().meta).filter((key) => key.startsWith('http://'))).toEqual([]);
    await client.close();
  });

  it('[J-02] An error response sets no state', async () => {
    const client = await connect(valise, hosts, SHOP);
    const data = setting('legacy', { server: { a: 1 } });
    hosts.respond = () => ({ error: { code: -32_000, message: 'no', data, ...data } });
    await expect(client.callTool({ name: 'one' })).rejects.toThrow('no');
    expect(valise.jar.list()).toEqual([]);
    await client.close();
  });

  it('[J-12] jar.list() sorts by server, scope and key', async () => {
    for (const url of ['https://b.example.com/mcp', 'https://a.example.com/mcp']) {
      const client = await connect(valise, hosts, url);
      sets({ session: { y: 1, x: 1 }, server: { z: 1, w: 1 } });
      await client.callTool({ name: 'one' });
    }
    const names = valise.jar.list().map(({ server, scope, key }) => `${server} ${scope} ${key}`);
    expect(names).toEqual(
      ['a', 'b'].flatMap((host) =>
        ['server w', 'server z', 'session x', 'session y'].map((name) => `${host}.example.com ${name}`),
      ),
    );
    expect(valise.jar.export().entries.map(({ key }) => key)).toEqual([...'wzxywzxy']);
  });

  it('[J-12] jar.list() shows values only on request', async () => {
    const client = await connect(valise, hosts, SHOP);
    sets(
      { session: { cart: ['tea'] }, server: { über: 'ä' } },
      { server: { über: { 'max-age': 60, 'method-scope': 'tools' } } },
    );
    await client.callTool({ name: 'one' });
    const [server, session] = valise.jar.list();
    expect(server).toEqual({
      server: 'shop.example.com',
      scope: 'server',
      key: 'über',
      size: 5 + 4,
      setAt: expect.any(Date),
      setBy: 'tools/call one',
      usedAt: expect.any(Date),
      expiresAt: expect.any(Date),
      secure: true,
      attributes: { maxAge: 60, methodScope: 'tools' },
    });
    expect(server!.expiresAt.getTime() - server!.setAt.getTime()).toBe(60_000);
    expect(session).toMatchObject({ scope: 'session', key: 'cart', attributes: {} });
    expect(session!.expiresAt.getTime() - session!.setAt.getTime()).toBe(34_560_000_000);
    expect(valise.jar.show('https://shop.example.com/mcp').map(({ key, value }) => [key, value])).toEqual([
      ['über', 'ä'],
      ['cart', ['tea']],
    ]);
    expect(JSON.parse(JSON.stringify(valise.jar.export()))).toMatchObject({
      version: 1,
      entries: [
        { key: 'über', value: 'ä' },
        { key: 'cart', value: ['tea'] },
      ],
    });
    await client.close();
  });

  it('[J-12] jar.clear() deletes one key, one scope, one server or everything', async () => {
    const clients = await Promise.all(
      ['a', 'b', 'c'].map((name) => connect(valise, hosts, `https://${name}.example.com`)),
    );
    sets({ session: { x: 1, y: 1 }, server: { x: 1, y: 1 } });
    const fill = () => Promise.all(clients.map((client) => client.callTool({ name: 'set' })));
    const held = () =>
      valise.jar
        .list()
        .map(({ server, scope, key }) => `${server[0]} ${scope} ${key}`)
        .sort();
    await fill();
    expect(held()).toHaveLength(12);
    expect(await valise.jar.clear({ server: 'a.example.com', scope: 'server', key: 'x' })).toBe(1);
    expect(held()).not.toContain('a server x');
    expect(await valise.jar.clear({ server: 'b.example.com' })).toBe(4);
    expect(await valise.jar.clear({ scope: 'session' })).toBe(4);
    expect(held()).toEqual(['a server y', 'c server x', 'c server y']);
    sets({});
    await clients[0]!.callTool({ name: 'look' });
    expect(stateOf(hosts.last().meta)).toEqual({ server: { y: 1 } });
    const gone = heard('deleted');
    expect(await valise.jar.clear()).toBe(3);
    expect(gone.map(({ by }) => by)).toEqual(['clear', 'clear', 'clear']);
    expect((await store.list('')).keys).toEqual([]);
    await Promise.all(clients.map((client) => client.close()));
  });

  it.each([
    ['a name that it does not know', { servr: 'shop.example.com' }, 'servr'],
    ['a server that is undefined', { server: undefined }, 'server'],
    ['a scope that there is not', { server: 'shop.example.com', scope: 'sesion' }, 'scope'],
    ['a key that is undefined', { server: 'shop.example.com', key: undefined }, 'key'],
    ['a server that is no text', { server: 5 }, 'server'],
    ['the name of a server in place of a filter', 'shop.example.com', 'object'],
    ['null', null, 'object'],
    ['a URL in place of a filter', new URL('https://shop.example.com'), 'plain object'],
    ['a map', new Map([['server', 'shop.example.com']]), 'plain object'],
  ])('[J-12] The jar rejects %s as a filter', async (_, filter, named) => {
    const client = await connect(valise, hosts, 'https://shop.example.com');
    sets({ server: { x: 1 } });
    await client.callTool({ name: 'set' });
    const refused = expect.objectContaining({
      code: 'invalid-argument',
      message: expect.stringContaining(named),
    });
    await expect(valise.jar.clear(filter as never)).rejects.toEqual(refused);
    expect(() => valise.jar.list(filter as never)).toThrow(refused);
    expect(() => valise.jar.export(filter as never)).toThrow(refused);
    expect(() => valise.jar.show(undefined as never)).toThrow(
      expect.objectContaining({ code: 'invalid-argument' }),
    );
    expect(valise.jar.list()).toHaveLength(1);
    expect(await valise.jar.clear({})).toBe(1);
    await client.close();
  });

  it('[J-12] A response in transit does not restore cleared state', async () => {
    const refused = heard('refused');
    const client = await connect(valise, hosts, SHOP);
    let arrived = () => {};
    const waiting = new Promise<void>((resolve) => {
      arrived = resolve;
    });
    let release = () => {};
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    hosts.respond = async ({ method }) => {
      if (method !== 'tools/call') return {};
      arrived();
      await held;
      return setting('legacy', { session: { cart: 1 }, server: { visitor: 7 } });
    };
    const slow = client.callTool({ name: 'slow' });
    await waiting;
    await valise.jar.clear();
    release();
    expect(await slow).toMatchObject({ content: [{ text: 'done' }] });
    expect(valise.jar.list()).toEqual([]);
    expect(refused.map(({ key, reason }) => [key, reason])).toEqual([
      ['cart', 'cleared'],
      ['visitor', 'cleared'],
    ]);
    await client.callTool({ name: 'later' });
    expect(valise.jar.list()).toHaveLength(2);
    await client.close();
  });

  it('[J-13] The state of one principal is not visible to another', async () => {
    const bob = await openValise({ store, principal: 'bob' });
    sets({ server: { visits: 1 } });
    const client = await connect(valise, hosts, SHOP);
    await client.callTool({ name: 'one' });
    const other = await connect(bob, hosts, SHOP);
    expect(stateOf(hosts.last('initialize').meta)).toEqual({});
    expect(bob.jar.list()).toEqual([]);
    await client.close();
    await other.close();
    await bob.close();
  });

  it.each(KINDS)('[J-13] State does not follow a redirect to another host ($kind)', async (kind) => {
    sets({ server: { visits: 1 } });
    const client = await connect(valise, hosts, SHOP, kind);
    await client.callTool({ name: 'one' });
    hosts.redirect = 'https://other.example.com/mcp';
    await expect(client.callTool({ name: 'two' })).rejects.toThrow();
    expect(hosts.seen.filter(({ host }) => host !== 'shop.example.com')).toEqual([]);
    await client.close();
  });

  it('[J-10] Session-scope state ends when the transport session changes or a new one starts', async () => {
    hosts.sessionId = 'first';
    sets({ session: { cart: 1 } });
    const client = await connect(valise, hosts, SHOP);
    await client.callTool({ name: 'one' });
    await client.callTool({ name: 'two' });
    expect(stateOf(hosts.last().meta)).toEqual({ session: { cart: 1 } });
    sets({});
    (client.transport as unknown as { _sessionId: string | undefined })._sessionId = undefined;
    await client.callTool({ name: 'three' });
    expect(stateOf(hosts.last().meta)).toEqual({});
    sets({ session: { cart: 2 } });
    await client.callTool({ name: 'four' });
    sets({});
    const params = {
      protocolVersion: '2025-11-25',
      capabilities: {},
      clientInfo: { name: 'x', version: '1' },
    };
    await client.request({ method: 'initialize', params }, z.looseObject({}));
    expect(stateOf(hosts.last('initialize').meta)).toEqual({});
    await client.callTool({ name: 'five' });
    expect(stateOf(hosts.last().meta)).toEqual({});
    await client.close();
  });

  it.each(KINDS.filter(({ era }) => era === 'legacy'))(
    '[J-10] The jar does not list the state of a terminated session ($kind)',
    async (kind) => {
      hosts.sessionId = 'first';
      sets({ session: { cart: 1 } });
      const deleted: string[] = [];
      valise.on('deleted', ({ key, by }) => deleted.push(`${key} ${by}`));
      const client = await connect(valise, hosts, SHOP, kind);
      await client.callTool({ name: 'one' });
      expect(valise.jar.list()).toHaveLength(1);
      await (client.transport as unknown as { terminateSession(): Promise<void> }).terminateSession();
      expect(valise.jar.list()).toEqual([]);
      expect(deleted).toEqual(['cart session-end']);
      await client.close();
    },
  );

  it('The jar applies state in the order in which responses arrive', async () => {
    const client = await connect(valise, hosts, SHOP);
    const gates = new Map<string, () => void>();
    hosts.respond = async ({ method, params }) => {
      if (method !== 'tools/call') return {};
      const name = String(params['name']);
      await new Promise<void>((resolve) => gates.set(name, resolve));
      return setting('legacy', { server: { last: name } });
    };
    const first = client.callTool({ name: 'first' });
    const second = client.callTool({ name: 'second' });
    await expect.poll(() => gates.size).toBe(2);
    gates.get('second')!();
    await second;
    gates.get('first')!();
    await first;
    expect(valise.jar.show('shop.example.com').map(({ value }) => value)).toEqual(['first']);
    await client.close();
  });

  it('The jar returns copies of values to the application', async () => {
    const client = await connect(valise, hosts, SHOP);
    sets({ server: { list: [1] } }, { server: { list: { 'max-age': 60 } } });
    await client.callTool({ name: 'one' });
    const [shown] = valise.jar.show('shop.example.com');
    (shown!.value as number[]).push(666);
    Object.assign(shown!.attributes, { methodScope: 'prompts' });
    await client.callTool({ name: 'two' });
    expect(stateOf(hosts.last().meta)).toEqual({ server: { list: [1] } });
    await client.close();
  });

  it('Each request introduces the client to a server without transport sessions that knows a Valise extension', async () => {
    const plain = await connect(valise, hosts, SHOP);
    await plain.callTool({ name: 'one' });
    expect(hosts.last().meta).toEqual({});
    await plain.close();
    hosts.capabilities = { tools: {}, extensions: { 'dev.valise/rounds': { carriers: ['state'] } } };
    const client = await connect(valise, hosts, SHOP);
    await client.callTool({ name: 'two' });
    expect(Object.keys(hosts.last().meta)).toEqual(['dev.valise/client']);
    expect(JSON.parse(String(hosts.last().meta['dev.valise/client']))).toEqual({
      protocolVersion: '2025-11-25',
      capabilities: {
        extensions: {
          'dev.valise/state': { version: '1.0.0' },
          'dev.valise/sessions': { version: '1.0.0' },
          'dev.valise/rounds': expect.anything(),
        },
      },
    });
    await client.close();
    hosts.sessionId = 'kept';
    const remembered = await connect(valise, hosts, SHOP);
    await remembered.callTool({ name: 'three' });
    expect(hosts.last().meta).toEqual({});
    await remembered.close();
  });

  it('The introduction names all families, because the next instance may know more of them', async () => {
    hosts.capabilities = { tools: {}, extensions: { 'dev.valise/state': {} } };
    const client = new Client({ name: 'test', version: '1.0.0' });
    await valise.connect(client, SHOP, { fetch: hosts.fetch });
    await client.callTool({ name: 'one' });
    const { capabilities } = JSON.parse(String(hosts.last().meta['dev.valise/client']));
    expect(capabilities).toEqual({
      extensions: {
        'dev.valise/state': { version: '1.0.0' },
        'dev.valise/sessions': { version: '1.0.0' },
        'dev.valise/rounds': { version: '1.0.0', carriers: expect.arrayContaining(['state']), expiry: true },
      },
    });
    await client.close();
  });

  it.each([
    ['state', {}],
    ['sessions', { 'dev.valise/sessions': { version: '1.0.0' } }],
    ['rounds', { 'dev.valise/rounds': { version: '1.0.0', expiry: true } }],
  ])(
    'On 2026-07-28, a server with %s is told once about the families that it can use',
    async (family, too) => {
      hosts.capabilities = { tools: {}, extensions: { [`dev.valise/${family}`]: { carriers: ['state'] } } };
      const info = { name: 'test', version: '1.0.0' };
      const client = new Client(info, { versionNegotiation: { mode: { pin: '2026-07-28' } } });
      await valise.connect(client, SHOP, { fetch: hosts.fetch });
      const said = (method: string) => hosts.last(method).meta['io.modelcontextprotocol/clientCapabilities'];
      expect(said('server/discover')).toMatchObject({
        state: {},
        experimental: { sessions: {} },
        extensions: { 'dev.valise/rounds': {} },
      });
      await client.callTool({ name: 'one' });
      expect(said('tools/call')).toEqual({
        extensions: { 'dev.valise/state': { version: '1.0.0' }, ...too },
      });
      await client.close();
    },
  );
});
