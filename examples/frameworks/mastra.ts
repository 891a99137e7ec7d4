import { createServer } from 'node:http';
import { createTool } from '@mastra/core/tools';
import { MCPServer } from '@mastra/mcp';
import { createValise } from 'mcp-valise/server';
import { z } from 'zod';

const valise = createValise({
  name: 'notes',
  store: process.env['VALISE_STORE'] ?? 'memory:',
  // Valise does not see the `_meta` of Mastra's tools, so all of them take a handle.
  handles: 'all',
});

const order = valise.flow(async (flow) => {
  const size = await flow.choose('size', 'Which size?', ['S', 'M', 'L']);
  return `ordered size ${size}`;
});

const mastra = new MCPServer({
  id: 'notes',
  name: 'notes',
  version: '1.0.0',
  tools: {
    visit: createTool({
      id: 'visit',
      description: 'Counts visits.',
      inputSchema: z.object({}),
      execute: async () => {
        const { server: kept } = valise.jar;
        const visits = Number(kept.get('visits') ?? 0) + 1;
        kept.set('visits', visits);
        return `visit ${visits}`;
      },
    }),
    order: createTool({
      id: 'order',
      description: 'Orders a shirt, in a size that the user chooses.',
      inputSchema: z.object({}),
      execute: async (_input, context) => order(context),
    }),
  },
});

// Mastra makes a server for each request, in a method that is private: look here first when it has a new version.
const inside = mastra as unknown as { createServerInstance(): Parameters<typeof valise.install>[0] };
const { createServerInstance } = inside;
inside.createServerInstance = () => valise.install(createServerInstance.call(mastra));

createServer(
  valise.http((req, res) =>
    mastra.startHTTP({ url: new URL(req.url ?? '/', 'http://127.0.0.1'), httpPath: '/mcp', req, res }),
  ),
).listen(Number(process.env['PORT'] ?? 3000), '127.0.0.1');
