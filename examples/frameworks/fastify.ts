import { toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler } from '@modelcontextprotocol/server';
import Fastify from 'fastify';
import { build, valise } from './notes.ts';

const mcp = valise.http(toNodeHandler(createMcpHandler(build)));
const app = Fastify();
app.all('/mcp', async (request, reply) => {
  // The answer may be a stream, which Fastify must leave alone.
  reply.hijack();
  await mcp(request.raw, reply.raw, request.body);
});
await app.listen({ port: Number(process.env['PORT'] ?? 3000), host: '127.0.0.1' });
