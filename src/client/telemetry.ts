import type { Store } from '../store/types.ts';
import type { ServerRequestMiddleware } from './call.ts';
import type { ClientMiddleware, ClientPart } from './connection.ts';
import type { ClientEventSource } from './events.ts';

/** What a client tells its telemetry. */
export interface ClientFacts {
  readonly events: ClientEventSource;
  /** Returns the number of pending questions. */
  pending(): Promise<number>;
}

/** A client that is observed. */
export interface ClientObservation {
  /** The innermost middleware. */
  readonly middleware: ClientMiddleware;
  /** The outermost middleware around requests from the server. */
  readonly incoming: ServerRequestMiddleware;
  /** Sees the beginning and the end of a connection. */
  readonly part: ClientPart;
  /** Stops observing. */
  close(): void;
}

/** The telemetry of a client: one middleware around its requests, a wrapper around its store, and listeners of its events. */
export interface ClientTelemetry {
  /** Observes a client. Returns undefined if nobody collects what it would report. */
  client(facts: ClientFacts): ClientObservation | undefined;
  /** Returns a store that measures another one. */
  store(store: Store, system: string): Store;
}
