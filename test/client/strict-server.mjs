// A stdio server of the older era that leaves when the first thing it hears is not `initialize`.
import { createInterface } from 'node:readline';

let greeted = false;
for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params = {} } = JSON.parse(line);
  if (!greeted && method !== 'initialize') process.exit(1);
  greeted = true;
  const serverInfo = { name: 'strict', version: '1.0.0' };
  const results = {
    initialize: { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo },
    'tools/list': { tools: [{ name: 'pid', inputSchema: { type: 'object' } }] },
    'tools/call': { content: [{ type: 'text', text: String(process.pid) }] },
  };
  if (id !== undefined)
    process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', id, result: results[method] })}\n`);
}
