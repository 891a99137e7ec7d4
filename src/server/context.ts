import type { createSealer } from '../seal/index.ts';
import type { Store } from '../store/types.ts';
import type { ServerEventSource } from './events.ts';

/** What the families of one server share. */
export interface ServerContext {
  /** The server's name: the audience of its seals. */
  readonly name: string;
  readonly sealer: ReturnType<typeof createSealer>;
  /** Where state is kept for clients that carry none; undefined where the author gave no store. */
  readonly store: Store | undefined;
  readonly events: ServerEventSource;
}
