// A stdio server in its barest form: it counts its calls in the client's jar, and shows what `_meta` each call came with.
import { createInterface } from 'node:readline';

const KEYS = ['modelcontextprotocol.io/state/session', 'modelcontextprotocol.io/state/server'];

for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params = {} } = JSON.parse(line);
  if (id === undefined) continue;
  const meta = params._meta ?? {};
  const counted = KEYS.map((key) => [key, { count: (meta[key]?.count ?? 0) + 1 }]);
  const result =
    method === 'initialize'
      ? {
          protocolVersion: params.protocolVersion,
          capabilities: { tools: {} },
          serverInfo: { name: 'bare', version: '1.0.0' },
        }
      : {
          content: [{ type: 'text', text: JSON.stringify(KEYS.map((key) => meta[key] ?? null)) }],
          _meta: {
            ...Object.fromEntries(counted),
            'dev.valise/state-attributes': params.arguments?.attributes,
          },
        };
  const known = method === 'initialize' || method === 'tools/call';
  const answer = known ? { result } : { error: { code: -32601, message: 'Method not found' } };
  process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', id, ...answer })}\n`);
}
