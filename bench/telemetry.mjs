// Measures what telemetry costs per tools/call, counting client and server, in memory: without the option, with it but without
// an OpenTelemetry SDK, and with an SDK that drops what it gets. "off" is compared with itself to show the noise of the run.
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

const bench = openBench('telemetry');
await bench.compare('a call without the option', {
  ours: await connected(),
  peers: {
    'without the option, again': { run: await connected(), goal: 0.98 },
    'telemetry() without an SDK': await connected(telemetry),
    'telemetry() with an SDK': await connected(() => telemetry({ tracerProvider, meterProvider })),
  },
});
for (const close of closing) await close();
await tracerProvider.shutdown();
await meterProvider.shutdown();
bench.close();
