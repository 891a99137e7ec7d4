import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import {
  Agent,
  createServer,
  type IncomingMessage,
  type RequestListener,
  type ServerResponse,
  request as send,
} from 'node:http';
import type { AddressInfo } from 'node:net';
import { NodeStreamableHTTPServerTransport, toNodeHandler } from '@modelcontextprotocol/node';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { WebStandardStreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js';
import { createMcpHandler } from '@modelcontextprotocol/server';
import { afterAll, describe, expect, it, vi } from 'vitest';
import { MAJORS } from '../server/majors.ts';
import { ERAS, type Era, hostile, initialize, type Loot, request } from './messages.ts';
import { type Json, mutateText } from './mutate.ts';
import type { Random } from './random.ts';
import { fuzz } from './run.ts';
import { type FuzzedServer, fuzzedServer } from './server.ts';

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

const GENUINE = ['answer', 'flow', 'server state', 'session', 'session state'];
const agent = new Agent({ keepAlive: true, maxSockets: 30 });
afterAll(() => agent.destroy());

interface Answer {
  readonly status: number;
  readonly type: string;
  readonly session: string | undefined;
  /** Whole JSON-RPC messages that came. */
  readonly messages: Record<string, Json>[];
  readonly body: string;
  /** The server left the answer open to send more. */
  readonly open: boolean;
}

/** One request. A stream that the server keeps open for more is left once it has told something, or after a moment. */
function exchange(
  port: number,
  method: string,
  path: string,
  headers: Record<string, string>,
  body: string | undefined,
  mayStayOpen: boolean,
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const made = send({ host: '127.0.0.1', port, method, path, headers, agent, setHost: true });
    let timer: NodeJS.Timeout | undefined;
    made.on('error', (error: NodeJS.ErrnoException) => {
      // The server may close a connection that nobody uses, in the moment in which it is used again.
      if (!made.reusedSocket || error.code !== 'ECONNRESET') return reject(error);
      resolve(exchange(port, method, path, { ...headers, connection: 'close' }, body, mayStayOpen));
    });
    made.on('response', (response) => {
      clearTimeout(timer);
      let text = '';
      const type = response.headers['content-type'] ?? '';
      const finish = (open: boolean) => {
        clearTimeout(timer);
        if (open) made.destroy();
        try {
          const session = response.headers['mcp-session-id'];
          resolve({
            status: response.statusCode ?? 0,
            type,
            session: typeof session === 'string' ? session : undefined,
            messages: method === 'HEAD' ? [] : parse(type, text),
            body: text,
            open,
          });
        } catch (error) {
          reject(error);
        }
      };
      response.setEncoding('utf8');
      response.on('error', () => {});
      response.on('data', (chunk: string) => {
        text += chunk;
        // A question of the server's: it waits for the answer, and we do not.
        if (type.startsWith('text/event-stream') && /"method":"(elicitation|sampling|roots|ping)/.test(text))
          finish(true);
      });
      response.on('end', () => finish(false));
      response.on('aborted', () => reject(new Error(`The answer was cut off: ${text}`)));
      if (mayStayOpen) timer = setTimeout(() => finish(true), 50);
    });
    // The SDKs' transports that answer in JSON have no headers to send before a listener is done.
    if (mayStayOpen)
      timer = setTimeout(() => {
        resolve({ status: 200, type: 'none', session: undefined, messages: [], body: '', open: true });
        made.destroy();
      }, 300);
    made.end(body);
  });
}

/** The messages of an answer; throws where it is not well formed. */
function parse(type: string, text: string): Record<string, Json>[] {
  if (type.startsWith('text/event-stream')) {
    const whole = text.slice(0, text.lastIndexOf('\n\n') + 1);
    return [...whole.matchAll(/^data: ?(.+)$/gm)].map(
      ([, data]) => JSON.parse(data as string) as Record<string, Json>,
    );
  }
  if (!type.startsWith('application/json')) return [];
  const value = JSON.parse(text) as Record<string, Json> | Record<string, Json>[];
  return Array.isArray(value) ? value : [value];
}

/** What the engine or a library says where a program did not look first. */
const SLIP =
  /Cannot read prop|is not a function|is not iterable|Unexpected token|Unexpected end of JSON|is not valid JSON|undefined is not|Invalid array length|Maximum call stack|circular structure|Cannot convert/;

function check({ status, messages, body }: Answer): void {
  if (status >= 500 || status < 200) throw new Error(`Status ${status}: ${body}`);
  for (const message of messages) {
    if (message['jsonrpc'] !== '2.0') throw new Error(`Not JSON-RPC: ${JSON.stringify(message)}`);
    const error = message['error'] as { code?: Json; message?: Json } | undefined;
    if (!error) continue;
    if (!Number.isInteger(error.code) || typeof error.message !== 'string')
      throw new Error(`Not an error of JSON-RPC: ${JSON.stringify(message)}`);
    if (SLIP.test(error.message)) throw new Error(`An error that nobody wrote: ${error.message}`);
  }
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
async function plunder(
  port: number,
  era: Era,
  user: string,
): Promise<{ loot: Loot; session: string | undefined; user: string }> {
  const loot: Loot = { era, state: {} };
  let session: string | undefined;
  const ask = async (message: Record<string, Json>) => {
    const headers = { ...headersFor(era, message, session), 'x-user': user };
    const answer = await exchange(port, 'POST', '/mcp', headers, JSON.stringify(message), false);
    session ??= answer.session;
    const last = answer.messages.at(-1) as Record<string, Record<string, Json>> | undefined;
    return last ?? {};
  };
  if (era === 'legacy') await ask(initialize(0));
  const created = await ask(request(loot, 1, ERAS[era].create));
  loot.session = created['result']?.['session'] as Json;
  const { result } = await ask(request(loot, 2, 'tools/call', { name: 'work', arguments: {} }, true));
  const { [ERAS[era].session]: kept, ...state } = (result?.['_meta'] ?? {}) as Record<string, Json>;
  if (kept) loot.session = { ...(loot.session as object), ...(kept as object) } as Json;
  loot.state = state;
  const asked = await ask(
    request(loot, 3, 'tools/call', { name: 'ask', arguments: { a: 1, b: ['x', null] } }),
  );
  const yes = { action: 'accept', content: { name: 'me' } };
  const dependent = asked['dependent_requests'];
  if (dependent)
    loot.round = {
      top: { dependent_responses: { state: dependent['state'] ?? null, responses: [{ result: yes }] } },
    };
  else if (asked['result']?.['requestState'])
    loot.round = {
      params: {
        requestState: asked['result']['requestState'],
        inputResponses: Object.fromEntries(
          Object.keys((asked['result']['inputRequests'] ?? {}) as object).map((key) => [key, yes]),
        ),
      },
    };
  return { loot, session, user };
}

describe.each(FORMS)('a $form server that is sent hostile HTTP messages', ({ form, eras, mode, serve }) => {
  it('answers each of them in good form, and takes no forgery', { timeout: 1_200_000 }, async () => {
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
    let plundered: { from: number; loot: Promise<Awaited<ReturnType<typeof plunder>>[]> } | undefined;
    const plan = { name: `HTTP, ${form}`, short: 800, soak: 25_000, atOnce: 8, reach: 1 / 3 };
    try {
      await fuzz(plan, async ({ at, random, batch, input, count, reached }) => {
        const { at: from } = batch(60);
        if (plundered?.from !== from) {
          const from2 = eras.flatMap((era) =>
            ['ann', 'bob', 'nobody'].map((user) => plunder(port, era, user)),
          );
          plundered = { from, loot: Promise.all(from2) };
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
        const { loot } = await plunder(port, era, 'carol');
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
