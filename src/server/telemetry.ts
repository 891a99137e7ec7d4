import type { Middleware } from '../core/compose.ts';
import type { Response } from '../core/message.ts';
import type { Store } from '../store/types.ts';
import type { ServerEventSource } from './events.ts';
import type { Exchange, ServerMiddleware, ServerQuestion } from './exchange.ts';
import type { FlowCounts } from './flows/counters.ts';

/** What a server tells its telemetry. */
export interface ServerFacts {
  readonly events: ServerEventSource;
  /** The kind of store, such as `redis`. Undefined without a store. */
  readonly store: string | undefined;
  /** Counts of the rounds so far. */
  counts(): FlowCounts;
  /** The number of calls that wait for their user in this process. */
  waiting(): number;
  /** Returns the trace context of the round that a request continues, from its sealed context. */
  before(exchange: Exchange): FlowTrace | undefined;
}

/** The flow and round that a request continues, with the trace context of the request that asked. */
export interface FlowTrace {
  readonly flow: string;
  readonly round: number;
  readonly traceparent: string | undefined;
}

/** A server that is observed. */
export interface ServerObservation {
  /** The outermost middleware. */
  readonly middleware: ServerMiddleware;
  /** The middleware around requests of the server to the client. */
  readonly outgoing: Middleware<ServerQuestion, Response>;
  /** Stops observing. */
  close(): void;
}

/** The telemetry of a server: one middleware around its requests, a wrapper around its store, and listeners of its events. */
export interface ServerTelemetry {
  /** Observes a server. Returns undefined if nobody collects what it would report. */
  server(facts: ServerFacts): ServerObservation | undefined;
  /** Returns a store that measures another one. */
  store(store: Store, system: string): Store;
}

/** Returns the kind of a store for telemetry: the scheme of its URL, or `custom` for a store object. */
export function storeSystem(store: unknown): string | undefined {
  if (store === undefined) return undefined;
  return typeof store === 'string' ? (/^[a-z+]+/.exec(store)?.[0] ?? 'custom') : 'custom';
}
