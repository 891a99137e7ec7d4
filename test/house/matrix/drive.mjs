// Two instances behind a round robin, and a client: `node drive.mjs v1|v2 stock|valise`. The instance that has asked is
// killed while its question is open, and the call must end on the other one. Prints the result of the call.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { openValise } from 'mcp-valise/client';

const [, , major, kind] = process.argv;

const instances = await Promise.all(
  [1, 2].map(async () => {
    const child = fork(new URL('server.mjs', import.meta.url), [major]);
    const [port] = await once(child, 'message');
    return { child, port };
  }),
);

let next = 0;
let asked;
const roundRobin = (url, init) => {
  const living = instances.filter(({ child }) => child.exitCode === null && child.signalCode === null);
  const instance = living[next++ % living.length];
  if (String(init?.body ?? '').includes('"tools/call"')) asked = instance;
  const to = new URL(url);
  to.port = String(instance.port);
  return fetch(to, init);
};

const answer = async () => {
  const killed = once(asked.child, 'exit');
  asked.child.kill('SIGKILL');
  await killed;
  return { action: 'accept', content: { size: 'M' } };
};

const valise = kind === 'valise' ? await openValise({ store: 'memory:' }) : undefined;
const connect = (client, transport) =>
  valise ? valise.connect(client, transport) : client.connect(transport);

const info = [{ name: 'matrix', version: '1.0.0' }, { capabilities: { elicitation: {} } }];
const connected = {
  v1: async (url) => {
    const { Client } = await import('host-sdk/client/index.js');
    const { StreamableHTTPClientTransport } = await import('host-sdk/client/streamableHttp.js');
    const { ElicitRequestSchema } = await import('host-sdk/types.js');
    const client = new Client(...info);
    client.setRequestHandler(ElicitRequestSchema, answer);
    await connect(client, new StreamableHTTPClientTransport(url, { fetch: roundRobin }));
    return client;
  },
  v2: async (url) => {
    const { Client, StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client');
    const client = new Client(...info);
    client.setRequestHandler('elicitation/create', answer);
    await connect(client, new StreamableHTTPClientTransport(url, { fetch: roundRobin }));
    return client;
  },
};

const client = await connected[major](new URL(`http://127.0.0.1:${instances[0].port}/mcp`));
const { content } = await client.callTool({ name: 'order', arguments: {} });
console.log(content[0].text);
await client.close();
process.exit();
