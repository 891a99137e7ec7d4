import { Server as ServerV1 } from '@modelcontextprotocol/sdk/server/index.js';
import { Server as ServerV2 } from '@modelcontextprotocol/server';
import { generateKey } from 'mcp-valise/seal';
import { createValise } from 'mcp-valise/server';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { MAJORS } from './majors.ts';

describe('createValise', () => {
  it.each([undefined, {}, { name: '' }, { name: 7 }])('createValise() refuses the name %j', (options) => {
    expect(() => createValise(options as never)).toThrow(/without a name.*createValise\(\{ name/);
  });

  it.each([{}, null, () => true])('createValise() refuses an invalid schema: %s', (schema) => {
    const options = { name: 'test', jar: { session: { cart: { schema } } } };
    expect(() => createValise(options as never)).toThrow(/schema of state "cart" is no Standard Schema/);
    expect(() => createValise({ name: 'test' }).jar.key('cart', { schema } as never)).toThrow(/"cart"/);
  });

  it.each([z.string(), Object.assign(() => {}, { '~standard': z.string()['~standard'] })])(
    'createValise() says how to pass a schema that stands in place of the settings: %#',
    (schema) => {
      const jar = { session: { cart: schema } };
      const words = /"cart" was given a schema in place of its settings.*\{ schema: … \}/;
      expect(() => createValise({ name: 'test', jar } as never)).toThrow(words);
      expect(() => createValise({ name: 'test' }).jar.key('cart', schema as never)).toThrow(words);
    },
  );

  it('createValise() warns of public suffixes among the domains, which no client accepts', async () => {
    const warnings: string[] = [];
    const scoped = (scopes: readonly string[]) =>
      Object.fromEntries(scopes.map((serverScope) => [`of ${serverScope}`, { serverScope }]));
    const valise = createValise({
      name: 'test',
      keys: generateKey(),
      events: { warning: ({ what }) => warnings.push(what) },
      jar: {
        session: scoped(['example.com', 'localhost', 'intranet', '.example.co.uk', 'com']),
        server: scoped(['shop.vercel.app', '.co.uk']),
      },
    });
    for (let times = 0; times < 2; times++) valise.jar.key('mine', { serverScope: 'vercel.app' });
    const of = (warning: string) =>
      /"(.+)": its serverScope (\S+) is a public suffix/.exec(warning)?.slice(1);
    await expect
      .poll(() => warnings.map(of), { timeout: 10_000 })
      .toEqual([
        ['of com', 'com'],
        ['of .co.uk', '.co.uk'],
        ['mine', 'vercel.app'],
      ]);
  });
});

describe('options of createValise', () => {
  it.each([
    ['store', 5, 'URL of a store'],
    ['store', {}, 'URL of a store'],
    ['principal', 'alice', 'a function'],
    ['events', 'log', 'listeners'],
    ['jar', null, 'settings'],
    ['jar', { session: 5 }, 'settings'],
    ['jar', { session: { cart: null } }, 'object'],
    ['jar', { session: { cart: { plain: 'no' } } }, 'true or false'],
    ['sessions', true, 'settings'],
    ['sessions', { implicit: 'no' }, 'true or false'],
    ['sessions', { onCreate: 5 }, 'a function'],
    ['sessions', { onEnd: {} }, 'a function'],
    ['sessions', { mayListen: true }, 'a function'],
    ['sessions', { bus: {} }, 'URL of a bus'],
    ['sessions', { bus: 'foo://' }, 'URL of a bus'],
    ['sessions', { bus: 'sqlite:./x' }, 'URL of a bus'],
    ['sessions', { bus: 'redis' }, 'URL of a bus'],
    ['flows', null, 'settings'],
    ['flows', { singleUse: 'no' }, 'true or false'],
    ['flows', { codec: {} }, 'seal, open and recognizes'],
  ])('the option %s cannot be %j, and the error says what it takes', (name, value, words) => {
    expect(() => createValise({ name: 'test', [name]: value } as never)).toThrow(
      expect.objectContaining({
        name: 'ValiseError',
        code: 'invalid-argument',
        message: expect.stringMatching(new RegExp(`(${name}|"cart").*${words}`)),
      }),
    );
  });

  it('a misspelled option is refused by name', () => {
    expect(() => createValise({ name: 'test', foo: 1 } as never)).toThrow(
      /createValise has no option foo.*name, keys, store/,
    );
    const jar = { session: { cart: { maxage: 5 } } };
    expect(() => createValise({ name: 'test', jar } as never)).toThrow(
      /state "cart" has no option maxage.*maxAge/,
    );
    expect(() => createValise({ name: 'test', jar: { sesion: {} } } as never)).toThrow(
      /under jar, has no option sesion.*ttl, session, server/,
    );
    expect(() => createValise({ name: 'test', sessions: { onEndd: () => {} } } as never)).toThrow(
      /under sessions, has no option onEndd.*onEnd/,
    );
    expect(() => createValise({ name: 'test', flows: { singleuse: true } } as never)).toThrow(
      /under flows, has no option singleuse.*singleUse/,
    );
  });

  it.each([5, {}, []])('the option keys cannot be %j', (keys) => {
    expect(() => createValise({ name: 'test', keys } as never)).toThrow(
      expect.objectContaining({ name: 'ValiseError', code: 'invalid-key' }),
    );
  });
});

describe('arguments of the methods of a Valise', () => {
  const valise = createValise({ name: 'test', sessions: {} });
  const refused = (code: string, words: RegExp) =>
    expect.objectContaining({ name: 'ValiseError', code, message: expect.stringMatching(words) });

  it.each([{}, 'x', undefined, { fetch: 'x' }])('valise.http() refuses the handler %j', (handler) => {
    expect(() => valise.http(handler as never)).toThrow(
      refused('invalid-argument', /valise\.http\(\).*function/),
    );
  });

  it.each([
    [{ tll: '1h' }, /valise\.flow has no option tll/],
    [{ otherVersion: 'restrat' }, /option otherVersion/],
    [{ budget: 'x' }, /option budget/],
    [{ wait: ['asks'] }, /option wait.*ask, sample, roots/],
  ])('valise.flow() refuses the options %j by name', (options, words) => {
    expect(() => valise.flow(async () => ({ content: [] }), options as never)).toThrow(
      refused('invalid-argument', words),
    );
  });

  it('valise.flow() refuses a handler that is not a function', () => {
    expect(() => valise.flow('x' as never)).toThrow(
      refused('invalid-argument', /valise\.flow\(\).*function/),
    );
  });

  it.each([5, undefined, {}, { tol: 'x' }, { tool: 5 }])(
    'valise.sessions.require() refuses the operation %j',
    (gated) => {
      expect(() => valise.sessions.require('fits', gated as never)).toThrow(
        refused('invalid-argument', /sessions\.require\(\).*\{ tool: name \}/),
      );
    },
  );

  it('valise.on() refuses an unknown event', () => {
    const wrong = refused('invalid-argument', /no event "rejectd".*rejected, warning/);
    expect(() => valise.on('rejectd' as never, () => {})).toThrow(wrong);
    expect(() => createValise({ name: 'test', events: { rejectd: () => {} } as never })).toThrow(wrong);
  });
});

describe.each(MAJORS)('install ($major)', ({ McpServer, Memory }) => {
  const valise = createValise({ name: 'test', store: 'memory:' });

  it('install() is refused after the server has connected', async () => {
    const server = new McpServer({ name: 'test', version: '1.0.0' });
    await server.connect(Memory.createLinkedPair()[0]);
    expect(() => valise.install(server)).toThrow(/connected already.*before server\.connect/);
  });

  it('install() and connect() are refused after the Valise is closed', async () => {
    const closed = createValise({ name: 'test', store: 'memory:' });
    const before = closed.install(new McpServer({ name: 'test', version: '1.0.0' }));
    await closed.close();
    const refusal = expect.objectContaining({ code: 'closed' });
    expect(() => closed.install(new McpServer({ name: 'test', version: '1.0.0' }))).toThrow(refusal);
    await expect(before.connect(Memory.createLinkedPair()[0])).rejects.toEqual(refusal);
  });

  it('install() refuses an object that is not a server', () => {
    expect(() => valise.install({} as never)).toThrow(expect.objectContaining({ code: 'invalid-argument' }));
  });

  it('install() refuses a framework that hides its servers, and says what to install on instead', () => {
    /** As fastmcp and others have it: it makes an SDK server for each connection, and never calls this `connect`. */
    class FastMCP {
      readonly server = { sessions: [] };
      async connect(): Promise<void> {}
      async start(): Promise<void> {}
    }
    expect(() => valise.install(new FastMCP())).toThrow(
      /cannot be installed on FastMCP.*McpServer or a Server of @modelcontextprotocol\/server or @modelcontextprotocol\/sdk/,
    );
  });

  it('install() takes the Server class of either major version', () => {
    const info = { name: 'test', version: '1.0.0' };
    expect(valise.install(new ServerV1(info, {}))).toBeInstanceOf(ServerV1);
    expect(valise.install(new ServerV2(info, {}))).toBeInstanceOf(ServerV2);
  });
});
