// A stateless server with 20 tools, built for each request as the SDKs do it, compared with valise.factory, which installs
// Valise and reuses servers. Measures the server's CPU time per call in one process: requests go to `fetch`, without
// sockets.
import { setImmediate } from 'node:timers/promises';
import { McpServer as McpServerV1 } from '@modelcontextprotocol/sdk/server/mcp.js';
import { WebStandardStreamableHTTPServerTransport as TransportV1 } from '@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js';
import { createMcpHandler, McpServer as McpServerV2 } from '@modelcontextprotocol/server';
import { z } from 'zod';
import { generateKey } from '../dist/seal/index.js';
import { createValise } from '../dist/server/index.js';
import { openBench } from './measure.mjs';

const TOOLS = 20;
const NEWER = '2026-07-28';
const OLDER = '2025-11-25';

const builder = (McpServer) => () => {
  const server = new McpServer({ name: 'bench', version: '1.0.0' });
  for (let index = 0; index < TOOLS; index++)
    server.registerTool(
      `tool-${index}`,
      {
        description: `Tool ${index}`,
        inputSchema: z.object({ text: z.string(), count: z.number().optional() }),
      },
      async ({ text }) => ({ content: [{ type: 'text', text }] }),
    );
  return server;
};

const META = {
  'io.modelcontextprotocol/protocolVersion': NEWER,
  'io.modelcontextprotocol/clientInfo': { name: 'bench', version: '1.0.0' },
  'io.modelcontextprotocol/clientCapabilities': {},
};

const requestOf = (id, version) =>
  new Request('http://127.0.0.1/mcp', {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': version,
      ...(version === NEWER && { 'mcp-method': 'tools/call', 'mcp-name': 'tool-3' }),
    },
    body: JSON.stringify({
      jsonrpc: '2.0',
      id,
      method: 'tools/call',
      params: {
        name: 'tool-3',
        arguments: { text: `call ${id}` },
        ...(version === NEWER && { _meta: META }),
      },
    }),
  });

/** Follows the documentation of SDK v1: a server and a transport for each request. */
const statelessV1 = (make) => async (request) => {
  const server = make();
  const transport = new TransportV1({ sessionIdGenerator: undefined, enableJsonResponse: true });
  await server.connect(transport);
  const response = await transport.handleRequest(request);
  const text = await response.text();
  await transport.close();
  await server.close();
  return text;
};

const statelessV2 = (make) => {
  const { fetch } = createMcpHandler(make);
  return async (request) => (await fetch(request)).text();
};

// Takes a turn of the event loop for each request, as requests from a socket do; promises alone never yield one.
const caller = (answer, version) => async (id) => {
  await setImmediate();
  const text = await answer(requestOf(id, version));
  if (!text.includes(`call ${id}`)) throw new Error(`The call was answered with ${text}`);
};

const valise = createValise({ name: 'bench', keys: generateKey() });
const bench = openBench('reuse', { slotMs: 150, warmUpMs: 1500, rounds: 15 });
for (const [name, McpServer, stateless, version] of [
  [`v1, ${OLDER}`, McpServerV1, statelessV1, OLDER],
  [`v2, ${OLDER}`, McpServerV2, statelessV2, OLDER],
  [`v2, ${NEWER}`, McpServerV2, statelessV2, NEWER],
]) {
  const build = builder(McpServer);
  await bench.compare(`${name}, ${TOOLS} tools`, {
    ours: caller(stateless(valise.factory(build)), version),
    peers: {
      'the SDK alone': { run: caller(stateless(build), version), goal: 2 },
      'Valise without reuse': caller(stateless(valise.factory(build, { reuse: false })), version),
    },
  });
}
bench.note(
  `\nCPU time of one process that also makes the requests and reads the answers; ${OLDER} is the only revision of v1.`,
);
await valise.close();
bench.close();
