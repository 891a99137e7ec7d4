import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { NodeStreamableHTTPServerTransport, toNodeHandler } from '@modelcontextprotocol/node';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { WebStandardStreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js';
import { createMcpHandler } from '@modelcontextprotocol/server';
import { afterAll, describe, expect, it, vi } from 'vitest';
import { MAJORS } from '../server/majors.ts';
import { type Answer, agent, exchange } from './exchange.ts';
import { checkMessage, type Era, hostile, plunder } from './messages.ts';
import { type Json, mutateText } from './mutate.ts';
import type { Random } from './random.ts';
import { fuzz } from './run.ts';
import { type FuzzedServer, fuzzedServer, GENUINE } from './server.ts';

const [V1, V2] = MAJORS;
type NodeTransport = {
  handleRequest(request: IncomingMessage, response: ServerResponse, body?: unknown): Promise<void>;
};

/** With sessions of the SDK's own, the latest few of them. */
function stateful(
  { valise, build }: FuzzedServer,
  major: (typeof MAJORS)[number],
  Transport: typeof StreamableHTTPServerTransport,
): RequestListener {
  const transports = new Map<string, NodeTransport>();
  const serve = async (request: IncomingMessage, response: ServerResponse, body?: unknown) => {
    const known = transports.get(String(request.headers['mcp-session-id']));
    if (known) return known.handleRequest(request, response, body);
    const transport = new Transport({
      sessionIdGenerator: () => randomUUID(),
      onsessioninitialized: (id) => {
        transports.set(id, transport);
        const [oldest] = transports.keys();
        if (transports.size > 200 && oldest) transports.delete(oldest);
      },
    });
    await build(major).connect(transport as never);
    await transport.handleRequest(request, response, body);
  };
  return valise.http(serve as never) as RequestListener;
}

const FORMS: readonly {
  readonly form: string;
  readonly eras: readonly Era[];
  readonly mode: 'sealed' | 'stored';
  readonly serve: (server: FuzzedServer) => RequestListener;
}[] = [
  {
    form: 'stateless v1 on Node',
    eras: ['legacy'],
    mode: 'sealed',
    serve: ({ valise, build }) =>
      valise.http(async (request: IncomingMessage, response: ServerResponse, body?: unknown) => {
        const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined as never });
        await build(V1).connect(transport as never);
        await transport.handleRequest(request, response, body);
      }) as RequestListener,
  },
  {
    form: 'stateless v1, web standard, JSON',
    eras: ['legacy'],
    mode: 'stored',
    serve: ({ valise, build }) =>
      toNodeHandler({
        fetch: valise.http(async (request: Request, options?: object) => {
          const transport = new WebStandardStreamableHTTPServerTransport({
            sessionIdGenerator: undefined as never,
            enableJsonResponse: true,
          });
          await build(V1).connect(transport as never);
          return transport.handleRequest(request, options);
        }) as never,
      }) as RequestListener,
  },
  {
    form: 'stateful v1',
    eras: ['legacy'],
    mode: 'stored',
    serve: (server) => stateful(server, V1, StreamableHTTPServerTransport),
  },
  {
    form: 'stateless v2',
    eras: ['modern', 'legacy'],
    mode: 'sealed',
    serve: ({ valise, build }) =>
      toNodeHandler(valise.http(createMcpHandler(() => build(V2)))) as RequestListener,
  },
  {
    form: 'stateful v2',
    eras: ['legacy'],
    mode: 'sealed',
    serve: (server) => stateful(server, V2, NodeStreamableHTTPServerTransport as never),
  },
];

afterAll(() => agent.destroy());

function check({ status, messages, body }: Answer): void {
  if (status >= 500 || status < 200) throw new Error(`Status ${status}: ${body}`);
  for (const message of messages) checkMessage(message);
}

const HEADERS = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };

/** The headers that go with a message. */
function headersFor(era: Era, message: Json, session: string | undefined): Record<string, string> {
  const { method, params } = (message ?? {}) as { method?: Json; params?: { name?: Json; uri?: Json } };
  const name = params?.name ?? params?.uri;
  const isPlain = (text: unknown): text is string => typeof text === 'string' && /^[\x21-\x7e]+$/.test(text);
  if (era === 'legacy')
    return {
      ...HEADERS,
      'mcp-protocol-version': '2025-11-25',
      ...(session && { 'mcp-session-id': session }),
    };
  return {
    ...HEADERS,
    'mcp-protocol-version': '2026-07-28',
    ...(isPlain(method) && { 'mcp-method': method }),
    ...(isPlain(name) && { 'mcp-name': name }),
  };
}

/** Changes a header, or adds one. */
function mutateHeaders(random: Random, headers: Record<string, string>): Record<string, string> {
  const name = random.pick([
    ...Object.keys(headers),
    'origin',
    'last-event-id',
    'valise-session-id',
    'authorization',
    'content-encoding',
  ]);
  const value = random.chance(0.2)
    ? ''
    : mutateText(random, headers[name] ?? 'x').replace(/[^\t\x20-\x7e\x80-\xff]/g, '');
  return { ...headers, [name]: value };
}

/** Gets from a server what it gives to one user who behaves. */
async function visit(port: number, era: Era, user: string) {
  let session: string | undefined;
  const loot = await plunder(era, async (message) => {
    const headers = { ...headersFor(era, message, session), 'x-user': user };
    const answer = await exchange(port, 'POST', '/mcp', headers, JSON.stringify(message), false);
    session ??= answer.session;
    return answer.messages.at(-1) ?? {};
  });
  return { loot, session, user };
}

describe.each(FORMS)('a $form server that is sent hostile HTTP messages', ({ form, eras, mode, serve }) => {
  it('A server answers each hostile HTTP message with a valid response and accepts no forgery', {
    timeout: 1_200_000,
  }, async () => {
    // The SDKs warn of what is done here on purpose.
    vi.spyOn(console, 'warn').mockImplementation(() => {});
    const server = fuzzedServer(mode);
    const listener = serve(server);
    const sights = new Map<string, { user: string; handlers: number }>();
    const http = createServer((incoming, response) => {
      const sight = sights.get(String(incoming.headers['x-case'])) ?? {
        user: String(incoming.headers['x-user']),
        handlers: 0,
      };
      server.sight.run(sight, () => listener(incoming, response));
    }).listen(0, '127.0.0.1');
    await once(http, 'listening');
    const { port } = http.address() as AddressInfo;
    let plundered: { from: number; loot: Promise<Awaited<ReturnType<typeof visit>>[]> } | undefined;
    const plan = { name: `HTTP, ${form}`, short: 800, soak: 25_000, atOnce: 8, reach: 1 / 3 };
    try {
      await fuzz(plan, async ({ at, random, batch, input, count, reached }) => {
        const { at: from } = batch(60);
        if (plundered?.from !== from) {
          const visits = eras.flatMap((era) =>
            ['ann', 'bob', 'nobody'].map((user) => visit(port, era, user)),
          );
          plundered = { from, loot: Promise.all(visits) };
        }
        const { loot, session, user } = random.pick(await plundered.loot);
        // Most come from the user whom the server gave it to; some from another one.
        const sight = {
          user: random.chance(0.9) ? user : random.pick(['ann', 'bob', 'nobody']),
          handlers: 0,
        };
        const { text, message } = hostile(random, loot, at + 10);
        const verb = random.chance(0.96)
          ? 'POST'
          : random.pick(['GET', 'DELETE', 'PUT', 'OPTIONS', 'HEAD', 'PATCH']);
        const plain = headersFor(loot.era, message, session);
        const headers = {
          ...(random.chance(0.15) ? mutateHeaders(random, plain) : plain),
          'x-case': String(at),
        };
        const path = random.chance(0.97)
          ? '/mcp'
          : `/${mutateText(random, 'mcp?a=1').replace(/[^\x21-\x7e]/g, '')}`;
        input({ form, verb, path, headers, user: sight.user, text });
        sights.set(String(at), sight);
        const mayStayOpen = verb === 'GET' || /listen/.test(text);
        const answer = await exchange(
          port,
          verb,
          path,
          headers,
          verb === 'GET' || verb === 'HEAD' ? undefined : text,
          mayStayOpen,
        );
        sights.delete(String(at));
        check(answer);
        count(answer.type === 'none' ? 'waits' : `${answer.status}`);
        if (sight.handlers > 0) reached();
        const [forgery] = server.forgeries;
        if (forgery !== undefined) throw new Error(`A forgery was taken for genuine: ${forgery}`);
      });
      expect([...server.genuine].sort()).toEqual(GENUINE);
      // And it works for who behaves.
      for (const era of eras) {
        const { loot } = await visit(port, era, 'carol');
        if (!loot.session || !loot.round)
          throw new Error(`It no longer serves ${era} clients: ${JSON.stringify(loot)}`);
      }
    } finally {
      http.closeAllConnections();
      http.close();
      await server.valise.close();
    }
  });
});
