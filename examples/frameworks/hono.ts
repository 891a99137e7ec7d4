import { serve } from '@hono/node-server';
import { createMcpHandler } from '@modelcontextprotocol/server';
import { Hono } from 'hono';
import { build, valise } from './notes.ts';

const mcp = valise.http(createMcpHandler(build));
const app = new Hono();
app.all('/mcp', (c) => mcp.fetch(c.req.raw));
serve({ fetch: app.fetch, port: Number(process.env['PORT'] ?? 3000), hostname: '127.0.0.1' });
