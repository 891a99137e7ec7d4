/** A server as a command that reports progress and returns a picture: `node painter.mjs`. */
import { McpServer } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { z } from 'zod';

const DOT =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';

serveStdio(() => {
  const server = new McpServer({ name: 'painter', version: '1.0.0' });
  server.registerTool(
    'paint',
    {
      description: 'Paints a dot.',
      inputSchema: z.object({
        colour: z.enum(['red', 'blue']),
        steps: z.number().int().min(1).max(9).default(3),
      }),
    },
    async ({ colour, steps }, { mcpReq }) => {
      const { progressToken } = mcpReq._meta ?? {};
      for (let progress = 1; progress <= steps; progress++) {
        const params = { progressToken, progress, total: steps, message: `stroke ${progress}` };
        await mcpReq.notify({ method: 'notifications/progress', params });
        await new Promise((resolve) => setTimeout(resolve, 200));
      }
      return {
        content: [
          { type: 'text', text: `${colour} dot` },
          { type: 'image', mimeType: 'image/png', data: DOT },
        ],
      };
    },
  );
  return server;
});
