// Measures what telemetry costs per tools/call, counting client and server, in memory: with the option but without an
// OpenTelemetry SDK, without the option, and with an SDK that drops what it gets. The result is the median of five processes.
// test/otel/off.test.ts proves the same without a clock: the functions that run are the same.
import { Client, InMemoryTransport } from '@modelcontextprotocol/client';
import { McpServer } from '@modelcontextprotocol/server';
import { MeterProvider, PeriodicExportingMetricReader } from '@opentelemetry/sdk-metrics';
import { NodeTracerProvider, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-node';
import { openValise } from '../dist/client/index.js';
import { telemetry } from '../dist/otel/index.js';
import { createValise } from '../dist/server/index.js';
import { openBench } from './measure.mjs';

const call = { name: 'echo', arguments: { text: 'What travels with the call is small.' } };
const closing = [];

async function connected(make) {
  const observed = () => make && { telemetry: make() };
  const valise = createValise({ name: 'bench', keys: 'ephemeral', ...observed() });
  const server = valise.install(new McpServer({ name: 'bench', version: '1.0.0' }));
  server.registerTool('echo', {}, async () => ({ content: [{ type: 'text', text: 'said' }] }));
  const host = await openValise({ store: 'memory:', ...observed() });
  const client = new Client({ name: 'bench', version: '1.0.0' });
  const [near, far] = InMemoryTransport.createLinkedPair();
  await server.connect(far);
  await host.connect(client, near);
  closing.push(async () => {
    await client.close();
    await host.close();
    await valise.close();
  });
  return () => client.callTool(call);
}

const dropping = {
  export: (_, done) => done({ code: 0 }),
  shutdown: async () => {},
  forceFlush: async () => {},
};
const tracerProvider = new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(dropping)] });
const reader = new PeriodicExportingMetricReader({ exporter: dropping, exportIntervalMillis: 3_600_000 });
const meterProvider = new MeterProvider({ readers: [reader] });

const bench = openBench('telemetry', { slotMs: 100, warmUpMs: 2000, rounds: 40, processes: 5 });
await bench.compare('telemetry() without an SDK', async () => ({
  ours: await connected(telemetry),
  peers: {
    // Within 2 %: what is off costs nothing.
    'without the option': { run: await connected(), goal: 0.98 },
    'telemetry() with an SDK': await connected(() => telemetry({ tracerProvider, meterProvider })),
  },
}));
for (const close of closing) await close();
await tracerProvider.shutdown();
await meterProvider.shutdown();
bench.close();
