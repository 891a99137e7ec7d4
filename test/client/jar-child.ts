// A client process of its own: connects to the shop at a port of this machine and calls a tool so many times, then
// leaves in the way it is told: `close`, or `kill` right after the last result, before anything else can happen.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { openValise } from '../../src/client/index.ts';

const [store, port, name, count, end] = process.argv.slice(2) as [string, string, string, string, string];
const valise = await openValise({ store, quotas: { keysPerServer: 1000 } });
const client = new Client({ name, version: '1.0.0' });
await valise.connect(
  client,
  new StreamableHTTPClientTransport(new URL('https://shop.example.com/mcp'), {
    fetch: (url, init) => fetch(`http://127.0.0.1:${port}${new URL(url).pathname}`, init),
  }),
);
for (let at = 0; at < Number(count); at++)
  await client.callTool({ name: 'set', arguments: { key: `${name}${at}` } });
if (end === 'kill') process.kill(process.pid, 'SIGKILL');
await client.close();
await valise.close();
