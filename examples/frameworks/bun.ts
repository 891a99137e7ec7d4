// bun run bun.ts
import { createMcpHandler } from '@modelcontextprotocol/server';
import { build, valise } from './notes.ts';

const mcp = valise.http(createMcpHandler(build));
Bun.serve({
  port: Number(process.env['PORT'] ?? 3000),
  hostname: '127.0.0.1',
  // Bun ends a connection that says nothing for ten seconds; a question may take longer.
  idleTimeout: 0,
  fetch: (request) => mcp.fetch(request),
});
