// One instance of a fleet that reports to OpenTelemetry: metrics and traces by OTLP over HTTP, to
// OTEL_EXPORTER_OTLP_ENDPOINT. Start several with different ports and the same VALISE_KEYS and STORE.
//
//   STORE=redis://localhost VALISE_KEYS=… PORT=3001 node server.mjs
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server';
import { metrics } from '@opentelemetry/api';
import { OTLPMetricExporter } from '@opentelemetry/exporter-metrics-otlp-http';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { resourceFromAttributes } from '@opentelemetry/resources';
import { MeterProvider, PeriodicExportingMetricReader } from '@opentelemetry/sdk-metrics';
import { BatchSpanProcessor, NodeTracerProvider } from '@opentelemetry/sdk-trace-node';
import { telemetry } from 'mcp-valise/otel';
import { createValise } from 'mcp-valise/server';
import { z } from 'zod';

const { STORE = 'memory:', PORT = '0', EXPORT_INTERVAL = '5000' } = process.env;

// The SDK of OpenTelemetry starts first: Valise asks for its meter when it is created.
const resource = resourceFromAttributes({ 'service.name': 'orders', 'service.instance.id': randomUUID() });
const tracing = new NodeTracerProvider({
  resource,
  spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter())],
});
tracing.register();
const reader = new PeriodicExportingMetricReader({
  exporter: new OTLPMetricExporter(),
  exportIntervalMillis: Number(EXPORT_INTERVAL),
  exportTimeoutMillis: Number(EXPORT_INTERVAL),
});
const metering = new MeterProvider({ resource, readers: [reader] });
metrics.setGlobalMeterProvider(metering);

const valise = createValise({ name: 'orders', store: STORE, telemetry: telemetry() });
const text = (words) => ({ content: [{ type: 'text', text: words }] });

function build() {
  const server = valise.install(new McpServer({ name: 'orders', version: '1.0.0' }));
  server.registerTool('add', { inputSchema: z.object({ item: z.string() }) }, async ({ item }) => {
    const items = [...(valise.jar.session.get('items') ?? []), item].slice(-20);
    valise.jar.session.set('items', items);
    return text(`${items.length} items`);
  });
  server.registerTool('refuse', {}, async () => ({ ...text('Out of stock.'), isError: true }));
  server.registerTool(
    'order',
    { inputSchema: z.object({}) },
    valise.flow(async (_, flow) => {
      const schema = { type: 'object', properties: { sure: { type: 'boolean' } }, required: ['sure'] };
      const { sure } = await flow.ask('sure', { message: 'Order now?', schema });
      return text(sure ? 'Ordered.' : 'Not ordered.');
    }),
  );
  return server;
}

const http = createServer(valise.http(toNodeHandler(createMcpHandler(build, { legacy: 'stateless' }))));
http.listen(Number(PORT), '127.0.0.1', () => console.log(`http://127.0.0.1:${http.address().port}/mcp`));
process.once('SIGTERM', async () => {
  http.closeAllConnections();
  http.close();
  await Promise.allSettled([tracing.shutdown(), metering.shutdown()]);
  await valise.close();
  process.exit(0);
});
