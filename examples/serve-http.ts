/** The HTTP half of `serve.ts`: both majors of the SDK, with sessions for clients of the older era or without. */
import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { StreamableHTTPServerTransport as TransportV1 } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import type {
  McpServer,
  WebStandardStreamableHTTPServerTransport as TransportV2,
} from '@modelcontextprotocol/server';

/** Answers the requests to one path. */
export interface Endpoint {
  /** `body` is the parsed body, where somebody has read it already. */
  answer(request: IncomingMessage, response: ServerResponse, body?: unknown): Promise<void>;
  close(): Promise<void>;
}

/** The path that a request asks for. Undefined if its target is no path, such as `*` or a whole URL: answer it with 400. */
export function pathOf({ url: target = '' }: IncomingMessage): string | undefined {
  // Put behind an origin, not resolved against one: `//` would be read as a host without a name, and throw.
  const url = `http://localhost${target}`;
  return target.startsWith('/') && URL.canParse(url) ? new URL(url).pathname : undefined;
}

/** A v1 server: the older era only. */
export async function httpV1(server: () => McpServer, stateless: boolean): Promise<Endpoint> {
  const { StreamableHTTPServerTransport } = await import(
    '@modelcontextprotocol/sdk/server/streamableHttp.js'
  );
  const sessions = new Sessions<TransportV1>();
  const startSession = async (): Promise<TransportV1> => {
    const transport: TransportV1 = new StreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (id) => sessions.add(id, transport),
      onsessionclosed: (id) => sessions.remove(id),
    });
    await server().connect(transport);
    return transport;
  };
  return {
    async answer(request, response, body) {
      if (stateless) {
        const transport = new StreamableHTTPServerTransport();
        response.once('close', () => void transport.close());
        await server().connect(transport);
        await transport.handleRequest(request, response, body);
        return;
      }
      const id = request.headers['mcp-session-id'];
      const transport = typeof id === 'string' ? sessions.get(id) : await startSession();
      if (transport) await transport.handleRequest(request, response, body);
      else response.writeHead(404).end();
    },
    close: () => sessions.close(),
  };
}

/** A v2 server: the newer era, which has no sessions, and beside it the older one. */
export async function httpV2(server: () => McpServer, stateless: boolean): Promise<Endpoint> {
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
  return {
    answer: (request, response, body) => listener(request as Parameters<typeof listener>[0], response, body),
    async close() {
      await sessions.close();
      await handler.close();
    },
  };
}

const MAX_SESSIONS = 1000;

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
    for (const [longest, idle] of this.#open) {
      this.#open.delete(longest);
      void idle.close();
      return;
    }
  }

  remove(id: string): void {
    this.#open.delete(id);
  }

  async close(): Promise<void> {
    await Promise.all([...this.#open.values()].map((transport) => transport.close()));
    this.#open.clear();
  }
}
