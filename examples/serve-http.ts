/** The HTTP half of `serve.ts`: both majors of the SDK, with sessions for clients of the older era or without. */
import { randomUUID } from 'node:crypto';
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import type { StreamableHTTPServerTransport as TransportV1 } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import type {
  McpServer,
  WebStandardStreamableHTTPServerTransport as TransportV2,
} from '@modelcontextprotocol/server';

const MAX_SESSIONS = 1000;

/** A v1 server: the older era only. */
export async function httpV1(server: () => McpServer, stateless: boolean): Promise<RequestListener> {
  const { StreamableHTTPServerTransport } = await import(
    '@modelcontextprotocol/sdk/server/streamableHttp.js'
  );
  const sessions = new Sessions<TransportV1>();
  const connected = async (transport: TransportV1): Promise<TransportV1> => {
    await server().connect(transport);
    return transport;
  };
  const startSession = (): Promise<TransportV1> => {
    const transport: TransportV1 = new StreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (id) => sessions.add(id, transport),
      onsessionclosed: (id) => sessions.remove(id),
    });
    return connected(transport);
  };
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    if (stateless) {
      const transport = await connected(new StreamableHTTPServerTransport());
      response.once('close', () => void transport.close());
      await transport.handleRequest(request, response);
      return;
    }
    const id = request.headers['mcp-session-id'];
    const transport = typeof id === 'string' ? sessions.get(id) : await startSession();
    if (transport) await transport.handleRequest(request, response);
    else response.writeHead(404).end();
  };
  return (request, response) => void answer(request, response).catch(() => response.destroy());
}

/** A v2 server: the newer era, which has no sessions, and beside it the older one. */
export async function httpV2(server: () => McpServer, stateless: boolean): Promise<RequestListener> {
  const { createMcpHandler, isLegacyRequest, WebStandardStreamableHTTPServerTransport } = await import(
    '@modelcontextprotocol/server'
  );
  const { toNodeHandler } = await import('@modelcontextprotocol/node');
  const handler = createMcpHandler(server, { legacy: stateless ? 'stateless' : 'reject' });
  const sessions = new Sessions<TransportV2>();
  const startSession = async (): Promise<TransportV2> => {
    const transport: TransportV2 = new WebStandardStreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (id) => sessions.add(id, transport),
      onsessionclosed: (id) => sessions.remove(id),
    });
    await server().connect(transport);
    return transport;
  };
  const listener = toNodeHandler({
    async fetch(request, options) {
      if (stateless || !(await isLegacyRequest(request, options?.parsedBody)))
        return handler.fetch(request, options);
      const id = request.headers.get('mcp-session-id');
      const transport = id === null ? await startSession() : sessions.get(id);
      return transport ? transport.handleRequest(request, options) : new Response(null, { status: 404 });
    },
  });
  return (request, response) => void listener(request as Parameters<typeof listener>[0], response);
}

/** Sessions in memory; the one that has been idle longest goes first. */
class Sessions<Transport extends { close(): Promise<void> }> {
  readonly #open = new Map<string, Transport>();

  get(id: string): Transport | undefined {
    const found = this.#open.get(id);
    if (found) this.add(id, found);
    return found;
  }

  add(id: string, transport: Transport): void {
    this.#open.delete(id);
    this.#open.set(id, transport);
    if (this.#open.size <= MAX_SESSIONS) return;
    for (const [idle, unused] of this.#open) {
      this.#open.delete(idle);
      void unused.close();
      return;
    }
  }

  remove(id: string): void {
    this.#open.delete(id);
  }
}
