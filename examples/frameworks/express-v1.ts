import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import express from 'express';
import { addTools, valise } from './notes.ts';

const app = express();
app.use(express.json());
// `all`: clients of 2025-11-25 need GET and DELETE besides POST.
app.all(
  '/mcp',
  valise.http(async (request, response, body) => {
    const server = valise.install(new McpServer({ name: 'notes', version: '1.0.0' }));
    addTools(server);
    // No sessions of the transport's own: any instance serves any client.
    const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined });
    await server.connect(transport);
    await transport.handleRequest(request, response, body);
  }),
);
app.listen(Number(process.env['PORT'] ?? 3000), '127.0.0.1');
