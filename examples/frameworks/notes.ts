/** The server that the files beside this one serve, each in its framework: a jar entry and a question. */
import { McpServer } from '@modelcontextprotocol/server';
import { createValise, keepsState } from 'mcp-valise/server';

export const valise = createValise({
  name: 'notes',
  // Clients without Valise need a store that all instances share, such as redis://…; clients with Valise need none.
  store: process.env['VALISE_STORE'] ?? 'memory:',
});

/** What is used of `McpServer` here. It is the same in both majors of the SDK. */
interface Tools {
  registerTool(
    name: string,
    config: { description: string; _meta?: Record<string, unknown> },
    handler: (extra: unknown) => Promise<{ content: { type: 'text'; text: string }[] }>,
  ): unknown;
}

/** Adds the tools to a server, of either major. */
export function addTools(server: Tools): void {
  // Clients that carry nothing and have no session pass a handle on from call to call.
  const _meta = { ...keepsState };
  server.registerTool('visit', { description: 'Counts visits.', _meta }, async () => {
    const { server: kept } = valise.jar;
    const visits = Number(kept.get('visits') ?? 0) + 1;
    kept.set('visits', visits);
    return { content: [{ type: 'text', text: `visit ${visits}` }] };
  });

  server.registerTool(
    'order',
    { description: 'Orders a shirt, in a size that the user chooses.' },
    valise.flow(async (flow) => {
      const size = await flow.choose('size', 'Which size?', ['S', 'M', 'L']);
      return { content: [{ type: 'text', text: `ordered size ${size}` }] };
    }),
  );
}

export function build(): McpServer {
  const server = valise.install(new McpServer({ name: 'notes', version: '1.0.0' }));
  addTools(server);
  return server;
}
