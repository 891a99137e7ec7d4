/**
 * A counter in each session, on a server that survives a crash: its sessions are in the store.
 *
 *     valise example vault --http 3000 --store sqlite:./vault.db
 *     valise example vault --http 3000 --store sqlite:./vault.db --with-auth
 *
 * With `--with-auth` an authorization server runs beside it, and nobody gets in without a token of it.
 */
import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { json } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import type {
  McpServer,
  WebStandardStreamableHTTPServerTransport as Transport,
} from '@modelcontextprotocol/server';
import { createValise } from 'mcp-valise/server';
import { openStore, type Store } from 'mcp-valise/store';
import { z } from 'zod';
import { type Example, serveIfMain } from './serve.ts';
import { type Endpoint, pathOf } from './serve-http.ts';
import { type Guard, openGuard } from './vault-auth.ts';

/** What is kept of a session: whose it is, and how its client introduced itself. */
interface KeptSession {
  readonly subject: string;
  readonly initialize: object;
}

export const example: Example = {
  name: 'vault',
  options: {
    'with-auth': { type: 'boolean' },
    'token-ttl': { type: 'string', default: '3600' },
    'forget-sessions': { type: 'boolean' },
  },
  async build({ sdk, McpServer, options, flags }) {
    const store =
      typeof options.store === 'object' ? options.store : await openStore(options.store ?? 'memory:');
    const valise = createValise({ name: 'vault', ...options, store });

    const makeServer = (session: string, subject: string) => {
      const vault = valise.install(new McpServer({ name: 'vault', version: '1.0.0' }));
      vault.registerTool(
        'increment',
        { description: 'Counts one up, in this session.', inputSchema: z.object({}) },
        async () => {
          const count = await countUp(store, `vault/count/${session}`);
          return { content: [text(String(count))], structuredContent: { count } };
        },
      );
      vault.registerTool(
        'whoami',
        { description: 'Says who is signed in.', inputSchema: z.object({}) },
        async () => ({ content: [text(subject)], structuredContent: { subject } }),
      );
      return vault;
    };

    const guard = flags['with-auth'] ? openGuard(store, Number(flags['token-ttl'])) : undefined;
    const http = serveSessions({
      Transport: await loadTransport(sdk),
      makeServer,
      guard,
      sessions: flags['forget-sessions'] ? undefined : store,
    });
    return {
      valise: {
        ...valise,
        async close() {
          await valise.close();
          await store.close();
        },
      },
      server: () => makeServer(randomUUID(), 'you'),
      http,
    };
  },
};

async function countUp(store: Store, key: string): Promise<number> {
  for (;;) {
    const entry = await store.get(key);
    const count = Number(entry?.value ?? 0) + 1;
    if (await store.put(key, count, entry ? { ifVersion: entry.version } : { ifAbsent: true })) return count;
  }
}

interface Serving {
  readonly Transport: typeof Transport;
  makeServer(session: string, subject: string): McpServer;
  readonly guard: Guard | undefined;
  /** Where sessions are kept; without it they end with the process. */
  readonly sessions: Store | undefined;
}

function serveSessions({ Transport, makeServer, guard, sessions }: Serving): Endpoint {
  const live = new Map<string, { readonly transport: Transport; readonly subject: string }>();

  const open = async (id: string, subject: string): Promise<Transport> => {
    const transport = new Transport({
      sessionIdGenerator: () => id,
      onsessionclosed: async () => {
        live.delete(id);
        await sessions?.delete(`vault/session/${id}`);
      },
    });
    await makeServer(id, subject).connect(transport);
    live.set(id, { transport, subject });
    return transport;
  };

  /** A session of an earlier process: its client does not know that this is another one, and need not. */
  const revive = async (id: string, url: string): Promise<void> => {
    const kept = (await sessions?.get(`vault/session/${id}`))?.value as KeptSession | undefined;
    if (!kept || live.has(id)) return;
    const transport = await open(id, kept.subject);
    const post = (message: object) =>
      transport.handleRequest(
        new Request(url, {
          method: 'POST',
          headers: {
            'content-type': 'application/json',
            accept: 'application/json, text/event-stream',
            ...('id' in message ? {} : { 'mcp-session-id': id }),
          },
          body: JSON.stringify(message),
        }),
      );
    await (await post({ jsonrpc: '2.0', id: 'revive', ...kept.initialize })).text();
    await post({ jsonrpc: '2.0', method: 'notifications/initialized' });
  };

  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const host = `http://127.0.0.1:${request.socket.localPort}`;
    const path = pathOf(request);
    if (path === undefined) return void response.writeHead(400).end();
    if (guard && (await guard.serve(host, request, response))) return;
    if (path !== '/mcp') return void response.writeHead(404).end();
    const authInfo = guard ? await guard.check(host, request) : undefined;
    if (guard && !authInfo) return guard.refuse(host, response);
    const subject = String(authInfo?.extra?.['sub'] ?? 'anybody');
    const body = request.method === 'POST' ? await json(request).catch(() => undefined) : undefined;
    const id = request.headers['mcp-session-id'];
    let transport: Transport | undefined;
    if (typeof id === 'string') {
      if (!live.has(id)) await revive(id, `${host}/mcp`);
      const session = live.get(id);
      // A session belongs to whoever began it; to everybody else it is unknown.
      if (session?.subject !== subject) return void response.writeHead(404).end('Session not found');
      transport = session.transport;
    } else if (isInitialize(body)) {
      const fresh = randomUUID();
      transport = await open(fresh, subject);
      const { method, params } = body;
      const kept = { subject, initialize: { method, params } } as never;
      await sessions?.put(`vault/session/${fresh}`, kept, { ttl: 30 * 24 * 3600 });
    } else return void response.writeHead(400).end('Bad Request: Mcp-Session-Id header is required');
    const { method = 'GET', headers } = request;
    const web = new Request(`${host}/mcp`, { method, headers: headers as HeadersInit });
    const answered = await transport.handleRequest(web, { parsedBody: body, ...(authInfo && { authInfo }) });
    response.writeHead(answered.status, Object.fromEntries(answered.headers)).flushHeaders();
    if (!answered.body) return void response.end();
    // Whoever hangs up has had enough; the stream is cancelled with it.
    await pipeline(Readable.fromWeb(answered.body as never), response).catch(() => undefined);
  };

  return {
    answer,
    async close() {
      for (const { transport } of live.values()) await transport.close();
    },
  };
}

function isInitialize(body: unknown): body is { readonly method: string; readonly params: object } {
  return typeof body === 'object' && body !== null && 'method' in body && body.method === 'initialize';
}

/** Both majors have the same one. */
async function loadTransport(sdk: 'v1' | 'v2'): Promise<typeof Transport> {
  if (sdk === 'v2')
    return (await import('@modelcontextprotocol/server')).WebStandardStreamableHTTPServerTransport;
  const { WebStandardStreamableHTTPServerTransport } = await import(
    '@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js'
  );
  return WebStandardStreamableHTTPServerTransport as unknown as typeof Transport;
}

const text = (words: string) => ({ type: 'text' as const, text: words });

await serveIfMain(import.meta.url, example);
