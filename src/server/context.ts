import type { Sealer } from '../seal/index.ts';
import type { Store } from '../store/types.ts';
import type { ServerEventSource, ServerEvents } from './events.ts';

/** What the families of one server share. */
export interface ServerContext {
  /** The server's name: the audience of its seals. */
  readonly name: string;
  readonly sealer: Sealer;
  /** Where state is kept for clients that carry none; undefined where the author gave no store. */
  readonly store: Store | undefined;
  readonly events: ServerEventSource;
  /** Tells a warning the first time it comes up; `id` tells warnings apart and is never shown. */
  readonly warnOnce: (id: string, warning: ServerEvents['warning']) => void;
}
