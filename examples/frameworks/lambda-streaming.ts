// AWS Lambda behind a function URL with the invoke mode RESPONSE_STREAM.
import { createMcpHandler } from '@modelcontextprotocol/server';
import { Hono } from 'hono';
import { streamHandle } from 'hono/aws-lambda';
import { build, valise } from './notes.ts';

const mcp = valise.http(createMcpHandler(build));
const app = new Hono();
app.all('/mcp', (c) => mcp.fetch(c.req.raw));
export const handler = streamHandle(app);
