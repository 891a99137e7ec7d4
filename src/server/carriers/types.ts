import type { Store } from '../../store/types.ts';

/**
 * What carries the state of a request from one call to the next, best first:
 *
 * - `client`: the client itself
 * - `principal`: the server's store, under the verified principal
 * - `session`: the server's store, under the data-layer session or the transport's own
 * - `conversation`: the server's store, under the key that the host sends for each conversation
 * - `handle`: the server's store, under a handle that the model passes back
 * - `none`: nothing
 */
export type CarrierKind = 'client' | 'principal' | 'session' | 'conversation' | 'handle' | 'none';

/** The carrier of one request. The jar, sessions and flows all use it. */
export interface Carrier {
  readonly kind: CarrierKind;
  /** The principal as store keys name it, or null. */
  readonly principal: string | null;
  /** The session, conversation, connection or handle that the calls of one session share, or null if there is none. */
  readonly thread: string | null;
  /** The store for what the client does not carry: the server's, or the memory of a process that serves alone. */
  readonly store: Store | undefined;
  /** Must be called before something is stored. Throws if the caller may not store more. */
  begin?(): Promise<void> | void;
  /** Whether nothing can be in the store yet. */
  readonly isNew?: boolean;
}

/** The carrier of a request that has not been looked at. */
export const NO_CARRIER: Carrier = { kind: 'none', principal: null, thread: null, store: undefined };
