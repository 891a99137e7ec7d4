// A stdio server of the v2 SDK that knows nothing but 2026-07-28.
import { McpServer } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';

serveStdio(
  () => {
    const server = new McpServer({ name: 'newer', version: '1.0.0' });
    server.registerTool('hello', {}, () => ({ content: [{ type: 'text', text: 'hello' }] }));
    return server;
  },
  { legacy: 'reject' },
);
