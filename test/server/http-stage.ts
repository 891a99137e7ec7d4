import { once } from 'node:events';
import { createServer, type IncomingMessage, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { WebStandardStreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js';
import { createMcpHandler, type McpServer } from '@modelcontextprotocol/server';
import type { ServerValise } from 'mcp-valise/server';
import { z } from 'zod';
import { name, text, type Wire } from './flow-peer.ts';
import { MAJORS } from './majors.ts';

const ends: (() => void)[] = [];

/** Ends all servers that {@link listen} has started. */
export function endServers(): void {
  for (const end of ends.splice(0)) end();
}

/** What a client announces that brings back the state of a question. */
export const CARRIERS = { 'dev.valise/rounds': { carriers: ['state'] } };

/** What the tool `slow` does between its answer and its result. */
export const slow: { work: (who: string | undefined) => Promise<void> } = { work: async () => {} };

/** A server with tools that ask, one that counts in its session, one that counts in its state, and a plain one. */
export const build = (valise: ServerValise, major: (typeof MAJORS)[number]): McpServer => {
  const server = valise.install(new major.McpServer({ name: 'test', version: '1.0.0' }));
  server.registerTool(
    'ask',
    { inputSchema: z.object({}) },
    valise.flow(async (_, flow) => {
      const { name: who } = await flow.ask('a', name);
      return text(`hello ${who}`);
    }),
  );
  server.registerTool(
    'slow',
    { inputSchema: z.object({}) },
    valise.flow(async (_, flow) => {
      const { name: who } = await flow.ask('a', name);
      await slow.work(who);
      return text(`hello ${who}`);
    }),
  );
  server.registerTool(
    'ask-twice',
    { inputSchema: z.object({}) },
    valise.flow(async (_, flow) => {
      await flow.ask('a', name);
      const { name: who } = await flow.ask('b', name);
      return text(`hello ${who}`);
    }),
  );
  server.registerTool(
    'report',
    { inputSchema: z.object({}) },
    valise.flow(async (_, flow) => {
      await flow.progress(1, 3, 'one');
      await flow.ask('a', name);
      await flow.progress(2, 3, 'two');
      await flow.ask('b', name);
      await flow.progress(3, 3, 'three');
      return text('done');
    }),
  );
  server.registerTool('count', { inputSchema: z.object({}) }, async () => {
    const session = valise.session();
    const n = ((session?.get('n') as number | undefined) ?? 0) + 1;
    session?.set('n', n);
    return text(String(n));
  });
  server.registerTool('remember', { inputSchema: z.object({}) }, async () => {
    const { session } = valise.jar;
    const n = ((session.get('n') as number | undefined) ?? 0) + 1;
    session.set('n', n);
    return text(`seen ${n}`);
  });
  server.registerTool('plain', { inputSchema: z.object({}) }, async () => text('plain'));
  return server;
};

export async function listen(listener: RequestListener): Promise<URL> {
  const server = createServer(listener).listen(0, '127.0.0.1');
  await once(server, 'listening');
  ends.push(() => {
    server.closeAllConnections();
    server.close();
  });
  return new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`);
}

/** Ways to serve without sessions through the edge. */
export const FORMS: Record<string, (valise: ServerValise) => RequestListener> = {
  'v1, Node': (valise) =>
    valise.http(async (request: IncomingMessage, response, body) => {
      const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined as never });
      await build(valise, MAJORS[0]).connect(transport as never);
      await transport.handleRequest(request, response, body);
    }) as RequestListener,
  'v1, Node, JSON': (valise) =>
    valise.http(async (request: IncomingMessage, response, body) => {
      const transport = new StreamableHTTPServerTransport({
        sessionIdGenerator: undefined as never,
        enableJsonResponse: true,
      });
      await build(valise, MAJORS[0]).connect(transport as never);
      await transport.handleRequest(request, response, body);
    }) as RequestListener,
  'v1, web standard': (valise) =>
    toNodeHandler({
      fetch: valise.http(async (request: Request, options?: object) => {
        const transport = new WebStandardStreamableHTTPServerTransport({
          sessionIdGenerator: undefined as never,
        });
        await build(valise, MAJORS[0]).connect(transport as never);
        return transport.handleRequest(request, options);
      }) as never,
    }) as RequestListener,
  'v2, Node around the web standard': (valise) =>
    valise.http(toNodeHandler(createMcpHandler(() => build(valise, MAJORS[1]))) as never) as RequestListener,
  'v2, web standard': (valise) =>
    toNodeHandler(valise.http(createMcpHandler(() => build(valise, MAJORS[1])))) as RequestListener,
};

export const HEADERS = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };

export async function post(url: URL, message: object | string, headers: Record<string, string> = {}) {
  const response = await fetch(url, {
    method: 'POST',
    headers: { ...HEADERS, 'mcp-protocol-version': '2025-11-25', ...headers },
    body: typeof message === 'string' ? message : JSON.stringify(message),
  });
  const body = await response.text();
  const messages = (response.headers.get('content-type') ?? '').startsWith('text/event-stream')
    ? [...body.matchAll(/^data: (.+)$/gm)].map(([, data]) => JSON.parse(data as string) as Wire)
    : body.startsWith('{')
      ? [JSON.parse(body) as Wire]
      : [];
  return {
    status: response.status,
    headers: response.headers,
    body,
    messages,
    message: messages.at(-1) as Wire,
  };
}

export const initialize = (capabilities: object, version = '2025-11-25') => ({
  jsonrpc: '2.0',
  id: 0,
  method: 'initialize',
  params: { protocolVersion: version, capabilities, clientInfo: { name: 'raw', version: '1' } },
});
export const call = (tool: string) => ({
  jsonrpc: '2.0',
  id: 7,
  method: 'tools/call',
  params: { name: tool, arguments: {} },
});
