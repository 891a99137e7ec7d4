import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';

/** Serves over HTTP with sessions of the SDK's own, in memory, which can be lost. */
export function transportSessions(build: () => McpServer) {
  const transports = new Map<string, StreamableHTTPServerTransport>();
  return {
    lose: () => transports.clear(),
    serve: async (request: IncomingMessage, response: ServerResponse, body?: unknown): Promise<void> => {
      const id = request.headers['mcp-session-id'];
      const known = typeof id === 'string' ? transports.get(id) : undefined;
      if (id !== undefined && !known) return void response.writeHead(404).end('Session not found');
      const transport =
        known ??
        new StreamableHTTPServerTransport({
          sessionIdGenerator: () => randomUUID(),
          onsessioninitialized: (made) => void transports.set(made, transport),
        });
      if (!known) await build().connect(transport as never);
      await transport.handleRequest(request, response, body);
    },
  };
}
