/**
 * A server whose questions stay open for a week, and whose other tools put more into the jar than a client accepts:
 * `node patient-server.mjs PORT`.
 */
import { serve } from '@hono/node-server';
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server';
import { createValise } from 'mcp-valise/server';
import { z } from 'zod';

const valise = createValise({ name: 'patient' });
const text = (words) => ({ content: [{ type: 'text', text: words }] });
const build = () => {
  const server = new McpServer({ name: 'patient', version: '1.0.0' });
  server.registerTool(
    'book',
    { inputSchema: z.object({ city: z.string() }) },
    valise.flow(
      async ({ city }, flow) => {
        const { nights } = await flow.ask('nights', {
          message: 'How many nights?',
          schema: z.object({ nights: z.number().int() }),
        });
        return text(`${city}, ${nights} nights`);
      },
      { ttl: '7d' },
    ),
  );
  server.registerTool('fill', { inputSchema: z.object({ count: z.number() }) }, async ({ count }) => {
    for (let at = 0; at < count; at++) valise.jar.server.set(`entry ${at}`, at);
    return text('filled');
  });
  server.registerTool('flood', { inputSchema: z.object({}) }, async () => {
    valise.jar.server.set('flood', 'x'.repeat(20_000));
    return text('flooded');
  });
  return server;
};
const handler = valise.http(createMcpHandler(valise.factory(build)).fetch);
serve(
  { port: Number(process.argv[2]), hostname: '127.0.0.1', fetch: (request) => handler(request) },
  ({ port }) => process.stdout.write(`http://127.0.0.1:${port}/mcp\n`),
);
