import { createMcpExpressApp } from '@modelcontextprotocol/express';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler } from '@modelcontextprotocol/server';
import { build, valise } from './notes.ts';

const app = createMcpExpressApp();
// `all`: clients of 2025-11-25 need GET and DELETE besides POST.
app.all('/mcp', valise.http(toNodeHandler(createMcpHandler(build))));
app.listen(Number(process.env['PORT'] ?? 3000), '127.0.0.1');
