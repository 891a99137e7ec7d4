import type { IncomingMessage, RequestListener } from 'node:http';
import { createValise, type ServerValise } from 'mcp-valise/server';
import { afterEach, describe, expect, it } from 'vitest';
import { checkedPrincipal as checked } from '../../src/server/principal.ts';
import { call, endServers, FORMS, initialize, listen, post } from './http-stage.ts';
import { MAJORS } from './majors.ts';

const DISCOVER = {
  jsonrpc: '2.0',
  id: 1,
  method: 'server/discover',
  params: {
    _meta: {
      'io.modelcontextprotocol/protocolVersion': '2026-07-28',
      'io.modelcontextprotocol/clientCapabilities': {},
      'io.modelcontextprotocol/clientInfo': { name: 'raw', version: '1.0.0' },
    },
  },
};

const checkedPrincipal = (tell: Parameters<typeof checked>[0]) => checked(tell, () => undefined);

describe('the return value of principal()', () => {
  it.each([
    ['nothing', undefined],
    ['null', null],
    ['an object without names', {}],
    ['undefined names', { issuer: undefined, subject: undefined }],
    ['an empty name', { subject: '' }],
    ['a client without a subject', { client: 'app' }],
    ['an issuer without a subject', { issuer: 'https://as.example.com' }],
  ])('a caller is anonymous if principal() returns %s', (_, told) => {
    expect(checkedPrincipal(() => told as never)(undefined, {})).toBeUndefined();
  });

  it.each([{ subject: 'ann' }, { issuer: 'https://as.example.com', subject: 'ann', client: 'app' }])(
    'a caller is identified if principal() returns %j',
    (told) => {
      expect(checkedPrincipal(() => told)(undefined, {})).toEqual(told);
    },
  );

  it('a numeric subject becomes text', () => {
    expect(checkedPrincipal(() => ({ subject: 7 }) as never)(undefined, {})).toEqual({ subject: '7' });
  });

  it.each([
    ['text', 'ann'],
    ['an object with an unknown id field', { id: 'ann' }],
    ['a boolean subject', { subject: true }],
    ['a list', [{ subject: 'ann' }]],
    ['a promise', Promise.resolve({ subject: 'ann' })],
  ])('principal() may not return %s', (_, told) => {
    expect(() => checkedPrincipal(() => told as never)(undefined, {})).toThrow(
      expect.objectContaining({ code: 'invalid-argument' }),
    );
  });
});

describe.each(Object.entries(FORMS))('the principal() function (%s)', (_, form) => {
  afterEach(endServers);

  it.each(['2025-11-25', '2026-07-28'])(
    'principal() receives the headers from the SDK and the HTTP edge as documented (%s)',
    async (version) => {
      const told: unknown[] = [];
      const valise = createValise({
        name: 'test',
        principal: (_authInfo, extra) => {
          const { request, requestInfo } = (extra ?? {}) as {
            request?: Request;
            requestInfo?: { headers: Record<string, string | string[] | undefined> };
          };
          const subject = request?.headers.get('x-user') ?? requestInfo?.headers['x-user'];
          told.push(subject);
          return typeof subject === 'string' ? { subject } : undefined;
        },
      });
      const url = await listen(form(valise));
      const message = version < '2026' ? initialize({}) : DISCOVER;
      await post(url, message, {
        'x-user': 'ann',
        'mcp-protocol-version': version,
        'mcp-method': message.method,
      });
      expect(told.length).toBeGreaterThan(version < '2026' ? 1 : 0);
      expect(new Set(told)).toEqual(new Set(['ann']));
    },
  );
});

describe.each(MAJORS)(
  'a server whose principal() returns an invalid value ($major)',
  ({ McpServer, Memory }) => {
    it('an invalid principal is answered with an error, and the author learns why', async () => {
      const warnings: string[] = [];
      const valise = createValise({
        name: 'test',
        store: 'memory:',
        principal: (async () => ({ subject: 'ann' })) as never,
        events: { warning: ({ what, next }) => warnings.push(`${what} ${next}`) },
      });
      const server = valise.install(new McpServer({ name: 'test', version: '1.0.0' }));
      const [client, transport] = Memory.createLinkedPair();
      await server.connect(transport);
      const answer = new Promise((resolve) => {
        client.onmessage = resolve;
      });
      await client.start();
      await client.send({ jsonrpc: '2.0', id: 5, method: 'ping' });
      expect(await answer).toMatchObject({ id: 5, error: { code: -32603 } });
      expect(warnings.join()).toMatch(/option principal of createValise.*not a promise/);
      expect(warnings.join()).not.toContain('Check the store');
    });
  },
);

describe.each(Object.entries(FORMS).filter(([name]) => !name.includes('JSON')))(
  'two users of one OAuth client (%s)',
  (_, form) => {
    afterEach(endServers);

    /** A server behind verified auth. The token is the user, as the verifier puts it into `extra.sub`, or leaves it out. */
    const stage = async (subOf: (token: string) => unknown) => {
      const warnings: string[] = [];
      const valise = createValise({
        name: 'test',
        store: 'memory:',
        sessions: { mode: 'stored', maxAnonymous: 100 },
        events: { warning: ({ what, next }) => warnings.push(`${what} ${next}`) },
      });
      const serve = form(remembering(valise));
      const url = await listen(((request: IncomingMessage, response) => {
        const token = String(request.headers.authorization);
        const sub = subOf(token);
        const extra = sub === undefined ? {} : { extra: { sub } };
        Object.assign(request, { auth: { token, clientId: 'app', scopes: [], ...extra } });
        return serve(request, response);
      }) as RequestListener);
      const user = async (authorization: string) => {
        const made = await post(url, initialize({ sessions: {}, experimental: { sessions: {} } }), {
          authorization,
        });
        const headers = { authorization, 'mcp-session-id': made.headers.get('mcp-session-id') as string };
        const send = async (message: object) => (await post(url, message, headers)).message;
        return {
          send,
          ask: (method: string, params: object = {}) => send({ jsonrpc: '2.0', id: 3, method, params }),
          remember: async () => JSON.stringify((await send(call('plain'))).result),
        };
      };
      return { valise, user, warnings };
    };

    /** Has the plain tool of the stage count in server-scope state, which the server keeps for its caller. */
    const remembering = (valise: ServerValise): ServerValise => ({
      ...valise,
      install(server) {
        const { registerTool } = server as unknown as { registerTool(...args: unknown[]): unknown };
        Object.assign(server, {
          registerTool(name: string, config: object, handler: unknown) {
            const count = async () => {
              const { server: state } = valise.jar;
              const n = ((state.get('n') as number | undefined) ?? 0) + 1;
              state.set('n', n);
              return { content: [{ type: 'text', text: `seen ${n}` }] };
            };
            return registerTool.call(server, name, config, name === 'plain' ? count : handler);
          },
        });
        return valise.install(server);
      },
    });

    it('two users whose token names no subject are anonymous, and neither sees the state of the other', async () => {
      const { user, warnings, valise } = await stage(() => undefined);
      const [ann, bob] = [await user('ann'), await user('bob')];
      expect(await ann.remember()).toContain('seen 1');
      expect(await ann.remember()).toContain('seen 2');
      expect(await bob.remember()).toContain('seen 1');
      const made = await ann.ask('sessions/create', { hints: { label: 'private' } });
      expect(made.result).toMatchObject({ session: { sessionId: expect.any(String) } });
      expect((await bob.ask('sessions/list')).result).toMatchObject({ sessions: [] });
      expect((await ann.ask('sessions/list')).result).toMatchObject({ sessions: [{ label: 'private' }] });
      const told = warnings.filter((each) => each.includes('no subject'));
      expect(told).toEqual([expect.stringMatching(/option principal/)]);
      await valise.close();
    });

    it('two users whose token names a subject are two principals, even if it is a number', async () => {
      const { user, warnings, valise } = await stage((token) => ({ ann: 7, annAgain: '7', bob: 8 })[token]);
      const [ann, again, bob] = [await user('ann'), await user('annAgain'), await user('bob')];
      expect(await ann.remember()).toContain('seen 1');
      expect(await again.remember()).toContain('seen 2');
      expect(await bob.remember()).toContain('seen 1');
      const made = await ann.ask('sessions/create', { hints: { label: 'private' } });
      const { sessionId } = (made.result as { session: { sessionId: string } }).session;
      const _meta = { 'io.modelcontextprotocol/session': { sessionId } };
      expect((await bob.ask('sessions/list')).result).toMatchObject({ sessions: [] });
      expect((await bob.ask('sessions/delete', { _meta })).error).toMatchObject({ code: -32043 });
      expect((await again.ask('sessions/list')).result).toMatchObject({ sessions: [{ sessionId }] });
      expect((await again.ask('sessions/delete', { _meta })).error).toBeUndefined();
      expect(warnings.filter((each) => each.includes('no subject'))).toEqual([]);
      await valise.close();
    });
  },
);
