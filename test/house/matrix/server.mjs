// One instance of a server, with whatever SDK and zod are installed here: `node server.mjs v1|v2`. Tells its port by IPC.
import { createServer } from 'node:http';
import { createValise } from 'mcp-valise/server';
import { z } from 'zod';

const valise = createValise({ name: 'matrix', store: process.env.MATRIX_STORE });

const build = (McpServer) => {
  const server = valise.install(new McpServer({ name: 'matrix', version: '1.0.0' }));
  server.registerTool(
    'order',
    { description: 'Orders something, in a size that the user chooses.' },
    valise.flow(async (flow) => {
      const schema = z.object({ size: z.enum(['S', 'M']), count: z.number().default(1) });
      const { size, count } = await flow.ask('size', { message: 'Which size?', schema });
      return { content: [{ type: 'text', text: `ordered ${count} of size ${size}` }] };
    }),
  );
  return server;
};

const serve = {
  v1: async () => {
    const { McpServer } = await import('@modelcontextprotocol/sdk/server/mcp.js');
    const { StreamableHTTPServerTransport } = await import(
      '@modelcontextprotocol/sdk/server/streamableHttp.js'
    );
    return valise.http(async (request, response) => {
      const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined });
      await build(McpServer).connect(transport);
      await transport.handleRequest(request, response);
    });
  },
  v2: async () => {
    const { createMcpHandler, McpServer } = await import('@modelcontextprotocol/server');
    const { toNodeHandler } = await import('@modelcontextprotocol/node');
    return valise.http(toNodeHandler(createMcpHandler(() => build(McpServer))));
  },
};

const server = createServer(await serve[process.argv[2]]());
server.listen(0, '127.0.0.1', () => process.send(server.address().port));
process.on('disconnect', () => process.exit());
