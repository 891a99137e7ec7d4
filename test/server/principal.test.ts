import { createValise } from 'mcp-valise/server';
import { afterEach, describe, expect, it } from 'vitest';
import { checkedPrincipal } from '../../src/server/principal.ts';
import { endServers, FORMS, initialize, listen, post } from './http-stage.ts';
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

describe('who asks, as the author tells it', () => {
  it.each([
    ['nothing', undefined],
    ['null', null],
    ['an object without names', {}],
    ['names that are not there', { issuer: undefined, subject: undefined }],
    ['an empty name', { subject: '' }],
  ])('is nobody: %s', (_, told) => {
    expect(checkedPrincipal(() => told as never)(undefined, {})).toBeUndefined();
  });

  it.each([{ subject: 'ann' }, { issuer: 'https://as.example.com', subject: 'ann', client: 'app' }])(
    'is somebody: %j',
    (told) => {
      expect(checkedPrincipal(() => told)(undefined, {})).toEqual(told);
    },
  );

  it.each([
    ['text', 'ann'],
    ['an id of another name', { id: 'ann' }],
    ['a number', { subject: 7 }],
    ['a list', [{ subject: 'ann' }]],
    ['a promise', Promise.resolve({ subject: 'ann' })],
  ])('is an error: %s', (_, told) => {
    expect(() => checkedPrincipal(() => told as never)(undefined, {})).toThrow(
      expect.objectContaining({ code: 'bad-principal' }),
    );
  });
});

describe.each(Object.entries(FORMS))('the function that tells who asks (%s)', (_, form) => {
  afterEach(endServers);

  it.each(['2025-11-25', '2026-07-28'])(
    'is given the headers by SDK and edge, as the guide says (%s)',
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

describe.each(MAJORS)('a server whose principal is no principal ($major)', ({ McpServer, Memory }) => {
  it('answers with an error, and tells the author why', async () => {
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
});
