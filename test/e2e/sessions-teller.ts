/** A server whose tools tell listeners things; served as the examples are. */
import { createValise } from 'mcp-valise/server';
import { z } from 'zod';
import { type Example, serveIfMain } from '../../examples/serve.ts';

const UPDATED = 'notifications/resources/updated';

export const example: Example = {
  name: 'teller',
  build({ McpServer, options }) {
    const valise = createValise({ name: 'teller', ...options, sessions: { mode: 'stored' } });
    const server = () => {
      const teller = valise.install(
        new McpServer(
          { name: 'teller', version: '1.0.0' },
          { capabilities: { resources: { subscribe: true } } },
        ),
      );
      const inputSchema = z.object({ uri: z.string() });
      teller.registerTool('tell', { inputSchema }, async ({ uri }) => {
        await valise.session()?.notify(UPDATED, { uri });
        return { content: [] };
      });
      teller.registerTool('tell_all', {}, async () => {
        await valise.notify('notifications/tools/list_changed');
        return { content: [] };
      });
      teller.registerTool('touch', { inputSchema }, async ({ uri }) => {
        await valise.notify(UPDATED, { uri });
        return { content: [] };
      });
      return teller;
    };
    return { valise, server };
  },
};

await serveIfMain(import.meta.url, example);
