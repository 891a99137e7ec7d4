import type { Sealer } from '../seal/index.ts';
import type { Store } from '../store/types.ts';
import type { ServerEventSource, ServerEvents } from './events.ts';

/** The services that all features of one server share. */
export interface ServerContext {
  /** The server's name, which is the audience of its seals. */
  readonly name: string;
  readonly sealer: Sealer;
  /** The store for clients that carry no state; undefined if the author gave none. */
  readonly store: Store | undefined;
  readonly events: ServerEventSource;
  /** Emits a warning the first time it comes up. `id` tells warnings apart and is never shown. */
  readonly warnOnce: (id: string, warning: ServerEvents['warning']) => void;
}
