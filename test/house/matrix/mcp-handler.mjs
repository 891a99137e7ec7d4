// Vercel's mcp-handler, wrapped as one would write it: prints what a tool says that is called twice in one session.
import { createMcpHandler } from 'mcp-handler';
import { createValise } from 'mcp-valise/server';

const valise = createValise({ name: 'matrix', keys: 'ephemeral', store: 'memory:' });
const handler = valise.http(
  createMcpHandler(
    (server) => {
      valise.install(server);
      server.registerTool('visit', { description: 'Counts visits.' }, async () => {
        const { session } = valise.jar;
        const visits = (session.get('visits') ?? 0) + 1;
        session.set('visits', visits);
        return { content: [{ type: 'text', text: `visit ${visits}` }] };
      });
    },
    {},
    { basePath: '' },
  ),
);

const post = async (id, method, params, session = {}) => {
  const headers = {
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
    'mcp-protocol-version': '2025-11-25',
    ...session,
  };
  const body = JSON.stringify({ jsonrpc: '2.0', id, method, params });
  const response = await handler(new Request('http://127.0.0.1/mcp', { method: 'POST', headers, body }));
  const [, data] = /^data: (.+)$/m.exec(await response.text()) ?? [];
  return { response, result: data && JSON.parse(data).result };
};

const clientInfo = { name: 'matrix', version: '1.0.0' };
const { response } = await post(0, 'initialize', {
  protocolVersion: '2025-11-25',
  capabilities: {},
  clientInfo,
});
const session = { 'mcp-session-id': response.headers.get('mcp-session-id') };
for (const id of [1, 2]) {
  const { result } = await post(id, 'tools/call', { name: 'visit', arguments: {} }, session);
  console.log(result.content[0].text);
}
process.exit();
