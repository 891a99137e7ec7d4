/**
 * Counts the functions and files of `src/` that one warm call runs through, on both ends, by V8 precise coverage.
 * Prints one JSON object, name of the call → counts; `--list` names the functions instead. `--telemetry` turns on the option of
 * that name, without an OpenTelemetry SDK; `--telemetry-sdk` with one.
 */
import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import { Session } from 'node:inspector/promises';
import type { AddressInfo } from 'node:net';
import { setImmediate as turn } from 'node:timers/promises';
import { Client } from '@modelcontextprotocol/client';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server';
import { openValise } from '../../src/client/index.ts';
import { generateKey } from '../../src/seal/index.ts';
import { createValise } from '../../src/server/index.ts';
import { memoryStore } from '../../src/store/index.ts';

/** The option `telemetry`, if the command line asks for it. */
async function telemetryOption() {
  const isCollected = process.argv.includes('--telemetry-sdk');
  if (!isCollected && !process.argv.includes('--telemetry')) return {};
  const { telemetry } = await import('../../src/otel/index.ts');
  if (!isCollected) return { telemetry: telemetry() };
  const { NodeTracerProvider } = await import('@opentelemetry/sdk-trace-node');
  return { telemetry: telemetry({ tracerProvider: new NodeTracerProvider() }) };
}

/** One function that ran, and how often. */
interface Hop {
  readonly file: string;
  readonly name: string;
  readonly count: number;
}

const sources = new URL('../../src/', import.meta.url).href;
const inspector = new Session();
inspector.connect();
await inspector.post('Profiler.enable');
await inspector.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });

/** The functions that ran since the last call, without module bodies and the loader's own `__name`. */
async function takeHops(): Promise<Hop[]> {
  const { result } = await inspector.post('Profiler.takePreciseCoverage');
  return result
    .filter(({ url }) => url.startsWith(sources))
    .flatMap(({ url, functions }) =>
      functions.flatMap(({ functionName, ranges: [range] }) => {
        const isModuleBody = functionName === '' && range?.startOffset === 0;
        if (!range || range.count === 0 || isModuleBody || functionName === '__name') return [];
        return [{ file: url.slice(sources.length), name: functionName, count: range.count }];
      }),
    );
}

/** Lets timers, microtasks and sockets of the last call run out. */
async function settle(): Promise<void> {
  for (let round = 0; round < 50; round++) await turn();
}

async function measure(call: () => Promise<unknown>): Promise<Hop[]> {
  for (let warmUp = 0; warmUp < 3; warmUp++) await call();
  await settle();
  await takeHops();
  await call();
  await settle();
  return takeHops();
}

const observed = await telemetryOption();
const text = (words: string) => ({ content: [{ type: 'text' as const, text: words }] });
const valise = createValise({
  name: 'hops',
  keys: generateKey(),
  store: memoryStore(),
  sessions: { mode: 'stored' },
  ...observed,
});
const handler = createMcpHandler(() => {
  const server = valise.install(new McpServer({ name: 'hops', version: '1.0.0' }));
  server.registerTool('plain', {}, async () => text('done'));
  server.registerTool('jar', {}, async () => {
    const { session } = valise.jar;
    session.set('count', Number(session.get('count') ?? 0) + 1);
    return text('done');
  });
  server.registerTool('session', {}, async () => {
    const session = valise.session();
    session?.set('count', (session.get<number>('count') ?? 0) + 1);
    return text('done');
  });
  server.registerTool(
    'ask',
    {},
    valise.flow(async (flow) => {
      const { ok } = await flow.ask('ok', {
        message: 'OK?',
        schema: { type: 'object', properties: { ok: { type: 'boolean' } }, required: ['ok'] },
      });
      return text(String(ok));
    }),
  );
  return server;
});
const http = createServer(toNodeHandler(valise.http(handler)) as RequestListener).listen(0, '127.0.0.1');
await once(http, 'listening');
const url = `http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp`;

const host = await openValise({ store: memoryStore(), allowLocal: true, ...observed });
const client = new Client(
  { name: 'hops', version: '1.0.0' },
  { capabilities: { elicitation: { form: {} } }, versionNegotiation: { mode: 'auto' } },
);
client.setRequestHandler('elicitation/create', async () => ({ action: 'accept', content: { ok: true } }));
host.on('warning', () => {});
await host.connect(client, url);
const session = await host.sessions(client).create();

const calls: Record<string, Hop[]> = {
  plain: await measure(() => client.callTool({ name: 'plain' })),
  jar: await measure(() => client.callTool({ name: 'jar' })),
  session: await measure(() => session.run(() => client.callTool({ name: 'session' }))),
  flow: await measure(() => client.callTool({ name: 'ask' })),
};

const isListing = process.argv.includes('--list');
for (const [name, hops] of isListing ? Object.entries(calls) : []) {
  const files = byFile(hops);
  console.log(`${name}: ${hops.length} functions in ${files.size} files`);
  for (const [file, own] of [...files].sort()) {
    const names = own.map(
      ({ name: its, count }) => `${its || '(anonymous)'}${count > 1 ? ` ×${count}` : ''}`,
    );
    console.log(`  ${file}: ${names.join(', ')}`);
  }
}
if (!isListing) {
  const counts = Object.entries(calls).map(([name, hops]) => {
    return [name, { functions: hops.length, files: new Set(hops.map(({ file }) => file)).size }];
  });
  console.log(JSON.stringify(Object.fromEntries(counts)));
}
await client.close();
await host.close();
http.closeAllConnections();
http.close();
await valise.close();

/** `Map.groupBy` needs Node 21. */
function byFile(hops: readonly Hop[]): Map<string, Hop[]> {
  const files = new Map<string, Hop[]>();
  for (const hop of hops) files.set(hop.file, [...(files.get(hop.file) ?? []), hop]);
  return files;
}
