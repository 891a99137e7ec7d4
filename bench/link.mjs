// Measures the cost of Valise per tools/call, compared with the same SDK without it: in memory, over stdio and over HTTP,
// counting both ends. HTTP is measured as documented, with `valise.http` at both ends, and with the SDK's own transports
// instead. Also measures the cost of the byte edges for messages without any Valise data. Until Node 24, AsyncLocalStorage
// slows down the whole process once it is in use: in memory and over HTTP, the SDK alone pays for it too.
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import {
  Client as ClientV2,
  StreamableHTTPClientTransport as HttpV2,
  InMemoryTransport as MemoryV2,
} from '@modelcontextprotocol/client';
import { StdioClientTransport as StdioV2 } from '@modelcontextprotocol/client/stdio';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport as StdioV1 } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport as HttpV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { InMemoryTransport as MemoryV1 } from '@modelcontextprotocol/sdk/inMemory.js';
import { openValise } from '../dist/client/index.js';
import { StdioClientTransport } from '../dist/internal/index.js';
import { echoHttp, echoServer } from './link/server.mjs';
import { openBench } from './measure.mjs';

const majors = {
  v1: { Client: ClientV1, Memory: MemoryV1, Stdio: StdioV1, Http: HttpV1 },
  v2: { Client: ClientV2, Memory: MemoryV2, Stdio: StdioV2, Http: HttpV2 },
};
const valise = await openValise({ store: 'memory:', allowLocal: true });
const call = {
  name: 'echo',
  arguments: { text: 'What travels with the call is small, and what it says is plain.' },
};
const closing = [];

async function connected(major, transport, withValise, options) {
  const client = new majors[major].Client({ name: 'bench', version: '1.0.0' }, options);
  if (withValise) await valise.connect(client, transport);
  else await client.connect(transport);
  closing.push(() => client.close());
  return () => client.callTool(call);
}

const ways = {
  async memory(major, withValise) {
    const [near, far] = majors[major].Memory.createLinkedPair();
    await echoServer(major, withValise).connect(far);
    return { run: await connected(major, near, withValise) };
  },
  async stdio(major, withValise, { edges = false } = {}) {
    const server = fileURLToPath(new URL('link/server.mjs', import.meta.url));
    const args = [server, '--stdio', major, edges ? 'edges' : withValise ? 'valise' : ''];
    const command = { command: process.execPath, args };
    const transport = edges ? new StdioClientTransport(command) : new majors[major].Stdio(command);
    const run = await connected(major, transport, withValise);
    return { run, others: () => cpuOf(transport.pid) };
  },
  async http(major, withValise, { edges = false, ...options } = {}) {
    const { url, close } = await echoHttp(major, withValise, edges);
    closing.push(close);
    const transport = edges ? url : new majors[major].Http(url);
    return { run: await connected(major, transport, withValise, options) };
  },
};

/** Returns the CPU time of another process in microseconds. Linux counts it in ticks of 10 ms. */
function cpuOf(pid) {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ');
  return (Number(fields[11]) + Number(fields[12])) * 10_000;
}

// A call over HTTP needs thousands of rounds until it is fully optimized.
const bench = openBench('link', { slotMs: 200, warmUpMs: 8000, rounds: 50, inFlight: 8, processes: 5 });
const compare = (name, way, goal, major, options) =>
  bench.compare(name, async () => {
    const ours = await way(major, true, options);
    const stock = await way(major, false, { ...options, edges: false });
    return { ours, peers: { 'the SDK alone': { ...stock, goal } } };
  });
const NEWER = { versionNegotiation: { mode: { pin: '2026-07-28' } } };
for (const major of ['v1', 'v2']) {
  await compare(`in memory, ${major}`, ways.memory, 1 / 1.15, major);
  await compare(`stdio, ${major}`, ways.stdio, undefined, major);
  await compare(`HTTP, ${major}`, ways.http, 1 / 1.05, major, { edges: true });
}
await compare('HTTP, v2, 2026-07-28', ways.http, 1 / 1.05, 'v2', { edges: true, ...NEWER });
for (const major of ['v1', 'v2']) await compare(`HTTP, ${major}, SDK transports`, ways.http, 1 / 1.05, major);
await compare('HTTP, v2, 2026-07-28, SDK transp.', ways.http, 1 / 1.05, 'v2', NEWER);
// The byte edges read input before the SDK does. Messages without Valise data should not cost more because of them.
for (const [name, way] of [
  ['stdio', ways.stdio],
  ['HTTP', ways.http],
]) {
  for (const major of ['v1', 'v2']) {
    await bench.compare(`${name}, ${major}, with byte edges`, async () => ({
      ours: await way(major, true, { edges: true }),
      peers: { 'Valise without them': { ...(await way(major, true)), goal: 1 / 1.03 } },
    }));
  }
}
bench.note(
  '\nIn memory and over HTTP both run in one process, with AsyncLocalStorage in use: until Node 24 that costs the SDK alone too.',
);
for (const close of closing) await close();
await valise.close();
bench.close();
