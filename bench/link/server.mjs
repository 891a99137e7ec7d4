// An echo server of either SDK major, with or without Valise, over stdio or HTTP: the other end of `link.mjs`.
import { createServer } from 'node:http';
import { z } from 'zod';
import { generateKey } from '../../dist/seal/index.js';
import { createValise } from '../../dist/server/index.js';

const info = { name: 'echo', version: '1.0.0' };

const { McpServer: V1 } = await import('@modelcontextprotocol/sdk/server/mcp.js');
const { createMcpHandler, McpServer: V2 } = await import('@modelcontextprotocol/server');
const valise = createValise({ name: 'echo', keys: generateKey() });

/** Creates an echo server. */
export function echoServer(major, withValise) {
  const server = new (major === 'v1' ? V1 : V2)(info);
  const inputSchema = z.object({ text: z.string() });
  server.registerTool('echo', { inputSchema }, async ({ text }) => ({ content: [{ type: 'text', text }] }));
  return withValise ? valise.install(server) : server;
}

/** Serves it over HTTP without sessions: v1 responds with JSON, v2 uses `createMcpHandler`. */
export async function echoHttp(major, withValise, edges = false) {
  const handle = major === 'v1' ? await httpV1(withValise, edges) : await httpV2(withValise, edges);
  const server = createServer(handle).listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  return {
    url: new URL(`http://127.0.0.1:${server.address().port}/mcp`),
    close: () => server.closeAllConnections() ?? server.close(),
  };
}

async function httpV1(withValise, edges) {
  const { StreamableHTTPServerTransport } = await import(
    '@modelcontextprotocol/sdk/server/streamableHttp.js'
  );
  const handle = async (request, response, body) => {
    if (request.method !== 'POST') return response.writeHead(405).end();
    const transport = new StreamableHTTPServerTransport({ enableJsonResponse: true });
    await echoServer('v1', withValise).connect(transport);
    await transport.handleRequest(request, response, body);
  };
  return edges ? valise.http(handle) : handle;
}

async function httpV2(withValise, edges) {
  const { toNodeHandler } = await import('@modelcontextprotocol/node');
  const handle = toNodeHandler(createMcpHandler(() => echoServer('v2', withValise)));
  return edges ? valise.http(handle) : handle;
}

if (process.argv[2] === '--stdio') {
  const [, , , major, valiseToo] = process.argv; // '', 'valise' or 'edges'
  const { StdioServerTransport } =
    major === 'v1'
      ? await import('@modelcontextprotocol/sdk/server/stdio.js')
      : await import('@modelcontextprotocol/server/stdio');
  const input = valiseToo === 'edges' ? valise.stdin() : process.stdin;
  await echoServer(major, valiseToo !== '').connect(new StdioServerTransport(input));
}
