// deno run --allow-net --allow-env --allow-read deno.ts
import process from 'node:process';
import { createMcpHandler } from '@modelcontextprotocol/server';
import { build, valise } from './notes.ts';

const mcp = valise.http(createMcpHandler(build));
Deno.serve({ port: Number(process.env['PORT'] ?? 3000), hostname: '127.0.0.1' }, (request) =>
  mcp.fetch(request),
);
