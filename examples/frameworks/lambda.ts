// AWS Lambda behind a function URL (invoke mode BUFFERED) or an HTTP API.
import { createMcpHandler } from '@modelcontextprotocol/server';
import { Hono } from 'hono';
import { handle } from 'hono/aws-lambda';
import { build, valise } from './notes.ts';

const mcp = valise.http(createMcpHandler(build));
const app = new Hono();
app.all('/mcp', (c) => mcp.fetch(c.req.raw));
export const handler = handle(app);
