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
import { observeServer } from './server.ts';
import { readSettings, type TelemetryOptions } from './settings.ts';
import { measuredStore } from './store.ts';

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
    store: (store, system) => {
      if (!isMetered()) return store;
      return measuredStore(
        store,
        system,
        meter().createHistogram('valise.store.duration', {
          unit: 's',
          description: 'The duration of an operation of the store.',
          advice: {
            explicitBucketBoundaries: [0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10],
          },
        }),
      );
    },
  };
}
