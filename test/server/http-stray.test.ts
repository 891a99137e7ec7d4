import { randomUUID } from 'node:crypto';
import type { IncomingMessage, RequestListener } from 'node:http';
import { NodeStreamableHTTPServerTransport, toNodeHandler } from '@modelcontextprotocol/node';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { createMcpHandler } from '@modelcontextprotocol/server';
import { createValise, type ServerValise } from 'mcp-valise/server';
import { memoryStore } from 'mcp-valise/store';
import { afterEach, describe, expect, it } from 'vitest';
import { modernCall } from './flow-peer.ts';
import { build, CARRIERS, call, endServers, FORMS, initialize, listen, post } from './http-stage.ts';
import { MAJORS } from './majors.ts';

afterEach(endServers);

const STRAY = { 'mcp-session-id': 'c0ffee00-0000-4000-8000-000000000000' };
const OWN = 'of-the-handler';
const NOTE = { jsonrpc: '2.0', method: 'notifications/roots/list_changed' };
const LOST = { jsonrpc: '2.0', id: null, error: { code: -32001, message: 'Session not found' } };

/** Handlers with session ids of their own, around transports without sessions. */
const GIVING: typeof FORMS = {
  Node: (valise) =>
    valise.http(async (request: IncomingMessage, response, body) => {
      response.setHeader('mcp-session-id', OWN);
      const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined as never });
      await build(valise, MAJORS[0]).connect(transport as never);
      await transport.handleRequest(request, response, body);
    }) as RequestListener,
  'web standard': (valise) => {
    const inner = createMcpHandler(() => build(valise, MAJORS[1]));
    const fetch: typeof inner.fetch = async (request, options) => {
      const response = await inner.fetch(request, options);
      response.headers.set('mcp-session-id', OWN);
      return response;
    };
    return toNodeHandler(valise.http({ ...inner, fetch })) as RequestListener;
  },
};

/** A server, and what it has refused. */
async function stage(form: (valise: ServerValise) => RequestListener, sessions = false) {
  const rejected: string[] = [];
  const valise = createValise({
    name: 'test',
    store: memoryStore(),
    ...(sessions && { sessions: { mode: 'sealed' } }),
    events: { rejected: ({ what, reason }) => rejected.push(`${what}: ${reason}`) },
  });
  return { valise, url: await listen(form(valise)), rejected };
}

describe.each(Object.entries(FORMS))('an unknown transport session id (%s)', (_, form) => {
  it.each([
    ['a call', call('plain'), 200],
    ['a call that would ask', call('ask'), 200],
    ['another request', { jsonrpc: '2.0', id: 1, method: 'tools/list' }, 200],
    ['a batch', [call('plain'), { jsonrpc: '2.0', id: 8, method: 'ping' }], 200],
    ['a notification', NOTE, 202],
    ['notifications', [NOTE, NOTE], 202],
    ['an answer that nobody waits for', { jsonrpc: '2.0', id: 9, result: {} }, 202],
  ])(
    'an unknown transport session id is refused with %s, so that the client starts over',
    async (_, message, taken) => {
      const { url, rejected } = await stage(form);
      const refused = await post(url, message, STRAY);
      expect(refused.status).toBe(404);
      expect(JSON.parse(refused.body)).toEqual(LOST);
      expect(rejected).toEqual(['a transport session: not made here']);

      const begun = await post(url, initialize({ elicitation: {}, extensions: CARRIERS }), STRAY);
      expect(begun.status).toBe(200);
      const session = { 'mcp-session-id': begun.headers.get('mcp-session-id') as string };
      expect((await post(url, message, session)).status).toBe(taken);
      expect(rejected).toHaveLength(1);
    },
  );

  it('an unknown transport session id is ignored on 2026-07-28', async () => {
    const { url } = await stage(form);
    const headers = {
      ...STRAY,
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': 'tools/call',
      'mcp-name': 'plain',
    };
    const { status, body } = await post(url, modernCall({}, { name: 'plain', arguments: {} }), headers);
    // Servers of SDK v1 do not know that era.
    if (status !== 400) expect([status, body]).toEqual([200, expect.stringContaining('plain')]);
    else expect(body).toContain('version');
    const noted = { ...headers, 'mcp-method': NOTE.method };
    expect((await post(url, NOTE, noted)).status).toBe(status === 200 ? 202 : 400);
  });

  it('an Mcp-Session-Id that equals the session of the message is accepted', async () => {
    const { url, rejected } = await stage(form, true);
    const create = { jsonrpc: '2.0', id: 1, method: 'sessions/create', params: {} };
    const session = (await post(url, create)).message.result.session;
    const counting = call('count');
    const within = {
      ...counting,
      params: { ...counting.params, _meta: { 'io.modelcontextprotocol/session': session } },
    };
    const mirrored = { 'mcp-session-id': session.sessionId as string };
    expect((await post(url, within, mirrored)).message.result.content[0].text).toBe('1');
    const note = { ...NOTE, params: within.params };
    expect((await post(url, note, mirrored)).status).toBe(202);
    expect(rejected).toEqual([]);
    expect((await post(url, within, STRAY)).status).toBe(404);
  });
});

describe('transport session ids from behind the HTTP edge', () => {
  it.each([
    ['v1', StreamableHTTPServerTransport, MAJORS[0]],
    ['v2', NodeStreamableHTTPServerTransport, MAJORS[1]],
  ])(
    'transport session ids are left to the transports that made them (SDK %s)',
    async (_, Transport, major) => {
      const transports = new Map<string, StreamableHTTPServerTransport>();
      const { url, rejected } = await stage(
        (valise) =>
          valise.http(async (request: IncomingMessage, response, body) => {
            const id = request.headers['mcp-session-id'] as string | undefined;
            let transport = transports.get(id ?? '');
            if (!transport) {
              const made = new Transport({
                sessionIdGenerator: randomUUID,
                onsessioninitialized: (own: string) => void transports.set(own, made),
              }) as StreamableHTTPServerTransport;
              transport = made;
              await build(valise, major).connect(made as never);
            }
            await transport.handleRequest(request, response, body);
          }) as RequestListener,
      );
      // As the SDK itself has it, whatever the edge has seen before.
      expect((await post(url, call('plain'), STRAY)).status).toBe(400);
      const begun = await post(url, initialize({}));
      const session = { 'mcp-session-id': begun.headers.get('mcp-session-id') as string };
      expect(session['mcp-session-id']).toMatch(/^[\da-f-]{36}$/);
      for (const message of [call('plain'), [call('plain'), { jsonrpc: '2.0', id: 8, method: 'ping' }]])
        expect((await post(url, message, session)).status).toBe(200);
      expect((await post(url, NOTE, session)).status).toBe(202);
      expect(rejected).toEqual([]);
    },
  );

  it.each(Object.entries(GIVING))(
    'transport session ids of a handler are accepted once the handler has issued one (%s)',
    async (_, form) => {
      const { url, rejected } = await stage(form);
      expect((await post(url, initialize({}))).headers.get('mcp-session-id')).toBe(OWN);
      expect((await post(url, call('plain'), { 'mcp-session-id': OWN })).status).toBe(200);
      expect((await post(url, NOTE, { 'mcp-session-id': OWN })).status).toBe(202);
      expect(rejected).toEqual([]);
    },
  );
});
