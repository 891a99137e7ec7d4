import { type Duration, seconds } from '../core/duration.ts';
import { ANYTHING, BYTES, checkOptions } from '../core/options.ts';
import type { Store } from '../store/types.ts';
import { COUNT, NAME, requireOption, shardedIndex, values } from './records.ts';

/** The session of a transport, and its limits. */
export interface TransportStorageOptions {
  /** The name of the session: a value that the client sends with every request, or the name of its Durable Object. */
  readonly session: string;
  /**
   * The idle timeout of the session.
   *
   * @defaultValue '24h'
   */
  readonly ttl?: Duration | undefined;
  /**
   * The maximum size of the state, in bytes of JSON. Larger state is rejected (`too-large`).
   *
   * @defaultValue 65536
   */
  readonly maxBytes?: number | undefined;
  /**
   * The maximum number of sessions in the store, over all instances. The one that was idle longest is dropped first. A
   * limit above 256 is kept in parts, and takes effect when one part is full, shortly before the whole is.
   *
   * @defaultValue 10000
   */
  readonly maxSessions?: number | undefined;
}

/** `MCPStorageApi` of Cloudflare's Agents SDK. */
export interface TransportStorage<State> {
  get(): Promise<State | undefined>;
  set(state: State): Promise<void>;
}

/**
 * Stores the state of a `WorkerTransport` of Cloudflare's Agents SDK, so that another instance can continue the
 * session.
 *
 * @throws ValiseError `invalid-argument` if an option is invalid.
 *
 * @example
 * ```ts
 * const transport = new WorkerTransport({ storage: transportStorage(store, { session }) });
 * ```
 */
export function transportStorage<State extends { initialized: boolean }>(
  store: Store,
  options: TransportStorageOptions,
): TransportStorage<State> {
  checkOptions('transportStorage', options, {
    session: NAME,
    ttl: ANYTHING,
    maxBytes: BYTES,
    maxSessions: COUNT,
  });
  const session = requireOption('transportStorage', 'session', options.session);
  const { maxBytes = 65_536, maxSessions: max = 10_000 } = options;
  const ttl = seconds(options.ttl ?? '24h');
  const index = shardedIndex(store, 'adapters/transports/sessions', { max, ttl });
  const states = values(store, 'adapters/transports/of/', {
    kind: 'state of the transport',
    ttl,
    maxBytes,
    indexOf: () => index,
  });
  return {
    get: async () => (await states.get(session)) as State | undefined,
    set: (state) => states.set(session, state),
  };
}
