// One instance of a server whose calls may be repeated, run with the built package. Each effect leaves a line in a file, so that
// it can be counted from the outside how often it was done.

import { appendFileSync, existsSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import { McpServer as McpServerV1 } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { McpServer as McpServerV2 } from '@modelcontextprotocol/server';
import { createValise } from 'mcp-valise/server';
import { z } from 'zod';
import { httpV1, httpV2 } from '../../cli/dist/examples/serve-http.js';

const { major, store, log, stdio } = JSON.parse(process.argv[2]);

const valise = createValise({ name: 'till', store, events: { warning: ({ what }) => console.error(what) } });

const text = (words) => ({ content: [{ type: 'text', text: words }] });
const inputSchema = { tag: z.string(), next: z.string().optional() };

async function charge({ tag, next }) {
  appendFileSync(log, `${tag}\n`);
  // Once for each tag, so that a second run would be seen.
  if (next === 'die' && !existsSync(`${log}.${tag}`)) {
    writeFileSync(`${log}.${tag}`, '');
    process.kill(process.pid, 'SIGKILL');
  }
  while (next === 'wait' && !existsSync(`${log}.${tag}.go`)) await pause(10);
  return text(`${tag} by ${process.pid}`);
}

function build() {
  const McpServer = major === 'v1' ? McpServerV1 : McpServerV2;
  const server = valise.install(new McpServer({ name: 'till', version: '1.0.0' }));
  const schema = major === 'v1' ? inputSchema : z.object(inputSchema);
  server.registerTool('charge', { inputSchema: schema }, valise.idempotent('charge', charge));
  server.registerTool('plain', { inputSchema: schema }, charge);
  return server;
}

if (stdio) await build().connect(new StdioServerTransport(valise.stdin()));
else {
  const endpoint = await (major === 'v1' ? httpV1 : httpV2)(build, true);
  const http = createServer(
    valise.http((request, response, body) => endpoint.answer(request, response, body)),
  );
  http.listen(0, '127.0.0.1', () => console.log(http.address().port));
}
