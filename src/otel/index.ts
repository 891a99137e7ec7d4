/**
 * OpenTelemetry for clients and servers: spans and metrics by the semantic conventions for MCP, and what Valise adds to them.
 * The only subpath that needs `@opentelemetry/api`.
 *
 * @packageDocumentation
 */
import { isSpanContextValid, metrics, ROOT_CONTEXT, trace } from '@opentelemetry/api';
import type { ClientTelemetry } from '../client/telemetry.ts';
import type { ServerTelemetry } from '../server/telemetry.ts';
import { observeClient } from './client.ts';
import { measuredStore } from './metrics.ts';
import { observeServer } from './server.ts';
import { readSettings, type TelemetryOptions } from './settings.ts';

export type { TelemetryOptions } from './settings.ts';

/** The telemetry of a client or a server, as {@link telemetry} returns it. */
export interface Telemetry extends ClientTelemetry, ServerTelemetry {}

const SCOPE = 'mcp-valise';

/**
 * Creates the telemetry of a client or a server. Pass it as the option `telemetry`, after the OpenTelemetry SDK has started.
 *
 * @example
 * ```ts
 * const valise = createValise({ name: 'shop', telemetry: telemetry() });
 * ```
 */
export function telemetry(options: TelemetryOptions = {}): Telemetry {
  const settings = readSettings(options);
  const tracer = (options.tracerProvider ?? trace).getTracer(SCOPE);
  const meters = options.meterProvider ?? metrics;
  const meter = () => meters.getMeter(SCOPE);
  // Without an SDK there is one meter for all names, and a span has no valid context.
  const isMetered = () => meters.getMeter('a') !== meters.getMeter('b');
  const isTraced = () =>
    isSpanContextValid(tracer.startSpan('probe', { root: true }, ROOT_CONTEXT).spanContext());
  const isOff = () => !isMetered() && !isTraced();
  return {
    server: (facts) => (isOff() ? undefined : observeServer(facts, tracer, meter(), settings)),
    client: (facts) => (isOff() ? undefined : observeClient(facts, tracer, meter(), settings)),
    store: (store, system) => (isMetered() ? measuredStore(store, system, meter()) : store),
  };
}
