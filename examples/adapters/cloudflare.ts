/** Cloudflare's Agents SDK: any instance continues a session, on any store that the platform reaches. */
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { WorkerTransport } from 'agents/mcp';
import { eventStore, transportStorage } from 'mcp-valise/adapters';
import type { Store } from 'mcp-valise/store';

/** Handles the requests of one session, whose id is the header `mcp-session-id`, or new for `initialize`. */
export async function openSession(
  store: Store,
  session: string,
): Promise<(request: Request) => Promise<Response>> {
  const server = new McpServer({ name: 'notes', version: '1.0.0' });
  server.registerTool('hello', {}, () => ({ content: [{ type: 'text', text: 'hello' }] }));
  const transport = new WorkerTransport({
    sessionIdGenerator: () => session,
    storage: transportStorage(store, { session }),
    eventStore: eventStore(store, { session }),
  });
  await server.connect(transport);
  return (request) => transport.handleRequest(request);
}
