// Cloudflare Workers, with the compatibility flag nodejs_compat, VALISE_KEYS as a secret, and a binding to the Durable Object
// below. In wrangler.jsonc:
//   "durable_objects": { "bindings": [{ "name": "STORE", "class_name": "ValiseStoreObject" }] },
//   "migrations": [{ "tag": "v1", "new_sqlite_classes": ["ValiseStoreObject"] }]

import { env } from 'cloudflare:workers';
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server';
import { createValise, keepsState } from 'mcp-valise/server';
import { durableObjectStore } from 'mcp-valise/store/durable-object';

export { ValiseStoreObject } from 'mcp-valise/store/durable-object';

const valise = createValise({ name: 'notes', store: durableObjectStore(env.STORE) });

function build(): McpServer {
  const server = valise.install(new McpServer({ name: 'notes', version: '1.0.0' }));
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
  return server;
}

export default valise.http(createMcpHandler(build));
