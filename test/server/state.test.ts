import { createValise, type ServerJar } from 'mcp-valise/server';
import { describe, expect, it } from 'vitest';
import { MAJORS, setHandler } from './majors.ts';
import { rawClient, resultOf, textOf } from './raw-client.ts';
import { ATTRIBUTES, metaOf, plain, SERVER, SESSION, serverOf, sessionOf, tool } from './state-tool.ts';

describe.each(MAJORS)('state on an SDK $major server', (major) => {
  it('[J-02] state is sent in the _meta of the result, as the draft shows it', async () => {
    const client = await tool(
      major,
      ({ session }) => {
        session.set('Cart Contents', { items: ['cucumber', 'tomato'], price: 100.0 });
        session.set('Coupon Code', 'XYZZY');
      },
      plain,
    );
    expect(metaOf(await client.call('work'))).toEqual({
      [SESSION]: {
        'Cart Contents': { items: ['cucumber', 'tomato'], price: 100.0 },
        'Coupon Code': 'XYZZY',
      },
    });
  });

  it.each(['carried by the client', 'kept in the store'])(
    '[J-02] a result with isError carries state, and a JSON-RPC error does not: %s',
    async (how) => {
      const valise = createValise({
        name: 'test',
        store: 'memory:',
        jar: { session: { n: { plain: true } } },
      });
      const server = valise.install(new major.McpServer({ name: 'test', version: '1.0.0' }));
      const fail = (n: number) => {
        valise.jar.session.set('n', n);
        throw new Error('broken');
      };
      server.registerTool('fail', {}, () => fail(1));
      server.registerTool('read', {}, () => ({
        content: [{ type: 'text', text: String(valise.jar.session.get('n')) }],
      }));
      server.registerResource('fail', 'fail://here', {}, () => fail(2));
      const [near, far] = major.Memory.createLinkedPair();
      await server.connect(far);
      const carries = how === 'carried by the client';
      const client = await rawClient(near, carries ? { state: {} } : {});
      const result = await client.call('fail');
      expect(result).toMatchObject({ isError: true });
      expect(sessionOf(result)).toEqual(carries ? { n: 1 } : undefined);
      const failed = await client.request('resources/read', { uri: 'fail://here' });
      expect(failed).toMatchObject({ error: { message: expect.stringContaining('broken') } });
      expect(JSON.stringify(failed)).not.toContain('state');
      if (!carries) expect(textOf(await client.call('read'))).toBe('1');
      await client.close();
      await valise.close();
    },
  );

  it('[J-02] a handler reads the state of its request at any depth of calls', async () => {
    const deep = async (state: ServerJar) => {
      await new Promise((resolve) => setImmediate(resolve));
      return state.session.get('Cart Contents');
    };
    const client = await tool(major, deep, plain);
    const result = await client.call('work', {}, { [SESSION]: { 'Cart Contents': { items: ['tomato'] } } });
    expect(textOf(result)).toBe('{"items":["tomato"]}');
    expect(metaOf(result)).toBeUndefined();
  });

  it('[J-03] server scope outlives the session', async () => {
    const client = await tool(major, ({ session, server }) => {
      session.set('a', 1);
      server.set('b', 2);
    });
    const result = await client.call('work');
    expect(Object.keys(sessionOf(result) ?? {})).toEqual(['a']);
    expect(Object.keys(serverOf(result) ?? {})).toEqual(['b']);
  });

  it('[J-04] state is read under both spellings and written under the one without http://', async () => {
    const client = await tool(
      major,
      ({ session }) => {
        const cart = session.get('Cart Contents');
        session.set('Coupon Code', 'XYZZY');
        return cart;
      },
      plain,
    );
    const result = await client.call('work', {}, { [`http://${SESSION}`]: { 'Cart Contents': 7 } });
    expect(textOf(result)).toBe('7');
    expect(metaOf(result)).toEqual({ [SESSION]: { 'Coupon Code': 'XYZZY' } });
  });

  it('[J-05] null deletes a name', async () => {
    const client = await tool(
      major,
      ({ session }) => {
        session.delete('Cart Contents');
        session.set('Coupon Code', null);
        return [session.get('Cart Contents') ?? 'gone', session.keys()];
      },
      plain,
    );
    const result = await client.call('work', {}, { [SESSION]: { 'Cart Contents': 1, 'Coupon Code': 2 } });
    expect(textOf(result)).toBe('["gone",[]]');
    expect(metaOf(result)).toEqual({ [SESSION]: { 'Cart Contents': null, 'Coupon Code': null } });
  });

  it('[J-06] a result names only the state that changed', async () => {
    const client = await tool(
      major,
      ({ session }) => {
        session.get('Cart Contents');
        session.set('Coupon Code', 'NEW');
        return session.keys();
      },
      plain,
    );
    const result = await client.call('work', {}, { [SESSION]: { 'Cart Contents': 1, 'Coupon Code': 'OLD' } });
    expect(textOf(result)).toBe('["Cart Contents","Coupon Code"]');
    expect(metaOf(result)).toEqual({ [SESSION]: { 'Coupon Code': 'NEW' } });
  });

  it('[J-07] set replaces the whole value', async () => {
    const client = await tool(
      major,
      ({ session }) => {
        session.set('Cart Contents', { price: 1 });
        return session.get('Cart Contents');
      },
      plain,
    );
    const result = await client.call('work', {}, { [SESSION]: { 'Cart Contents': { items: [], price: 9 } } });
    expect(textOf(result)).toBe('{"price":1}');
    expect(metaOf(result)).toEqual({ [SESSION]: { 'Cart Contents': { price: 1 } } });
  });

  it('[J-02] a JSON-RPC error carries no state', async () => {
    const valise = createValise({ name: 'test', ...plain });
    const server = valise.install(new major.McpServer({ name: 'test', version: '1.0.0' }));
    setHandler(major, server, 'ping', async () => {
      valise.jar.session.set('Coupon Code', 'LOST');
      throw new Error('no');
    });
    const [near, far] = major.Memory.createLinkedPair();
    await server.connect(far);
    const client = await rawClient(near);
    const response = await client.request('ping');
    expect(response).toMatchObject({ error: { message: expect.stringContaining('no') } });
    expect(JSON.stringify(response)).not.toContain('LOST');
  });

  it('[J-02] every method carries state, also initialize, lists and ping', async () => {
    const valise = createValise({ name: 'test', jar: { server: { seen: { plain: true } } } });
    const server = valise.install(
      new major.McpServer({ name: 'test', version: '1.0.0' }, { capabilities: { tools: {} } }),
    );
    const counting = (body: object) => async () => {
      const { server: kept } = valise.jar;
      kept.set('seen', Number(kept.get('seen') ?? 0) + 1);
      return body;
    };
    const serverInfo = { name: 'test', version: '1.0.0' };
    setHandler(
      major,
      server,
      'initialize',
      counting({ protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo }),
    );
    setHandler(major, server, 'ping', counting({}));
    setHandler(major, server, 'tools/list', counting({ tools: [] }));
    const [near, far] = major.Memory.createLinkedPair();
    await server.connect(far);
    const client = await rawClient(near, { state: {} }, { [SERVER]: { seen: 6 } });
    expect(serverOf(client.initialized)).toEqual({ seen: 7 });
    for (const method of ['ping', 'tools/list']) {
      const result = resultOf(await client.request(method, { _meta: { [SERVER]: { seen: 10 } } }));
      expect(serverOf(result)).toEqual({ seen: 11 });
    }
  });

  it('[J-01] a client that announces the jar in any place carries state', async () => {
    for (const capabilities of [
      { state: {} },
      { extensions: { 'dev.valise/state': {} } },
      { experimental: { 'dev.valise/state': {} } },
    ]) {
      const client = await tool(major, ({ session }) => session.set('Coupon Code', 'X'), plain, capabilities);
      expect(sessionOf(await client.call('work'))).toEqual({ 'Coupon Code': 'X' });
    }
  });

  it('[J-01] a client that sends state without announcing it carries state, even if it sends an empty dictionary', async () => {
    const client = await tool(major, ({ session }) => session.set('Coupon Code', 'X'), plain, {});
    expect(sessionOf(await client.call('work', {}, { [SESSION]: {} }))).toEqual({ 'Coupon Code': 'X' });
    expect(textOf(await client.call('work'))).toContain('does not carry state');
  });

  it('[J-20] serverScope is not sent if there are no domains', async () => {
    const client = await tool(major, ({ session }) => session.set('k', 1), {
      jar: { session: { k: { serverScope: 'example.com', methodScope: 'tools', plain: true } } },
    });
    expect(metaOf(await client.call('work'))).toEqual({
      [SESSION]: { k: 1 },
      [ATTRIBUTES]: { session: { k: { 'method-scope': 'tools' } } },
    });
  });

  it('[J-19] [J-21] a value is sent with the attributes of its key, and a deletion without', async () => {
    const client = await tool(
      major,
      ({ server, session }) => {
        server.set('profile', 'x');
        server.delete('old');
        session.set('plain', 1);
      },
      {
        jar: {
          server: {
            profile: { maxAge: '1d', methodScope: 'tools/call/work', plain: true },
            old: { maxAge: 60 },
          },
        },
      },
    );
    expect(metaOf(await client.call('work'))).toMatchObject({
      [SERVER]: { profile: 'x', old: null },
      [ATTRIBUTES]: { server: { profile: { 'max-age': 86_400, 'method-scope': 'tools/call/work' } } },
    });
  });

  it('a server announces the jar under its extensions', async () => {
    const client = await tool(major, () => null);
    expect(client.initialized['capabilities']).toMatchObject({ extensions: { 'dev.valise/state': {} } });
  });

  it('the jar works on the low-level Server too', async () => {
    const valise = createValise({ name: 'test', ...plain });
    const { server } = new major.McpServer({ name: 'test', version: '1.0.0' });
    valise.install(server);
    setHandler(major, { server }, 'ping', async () => {
      valise.jar.session.set('Coupon Code', 'X');
      return {};
    });
    const [near, far] = major.Memory.createLinkedPair();
    await server.connect(far);
    const client = await rawClient(near);
    expect(metaOf(resultOf(await client.request('ping')))).toEqual({ [SESSION]: { 'Coupon Code': 'X' } });
  });
});
