import { type Duration, seconds } from '../duration.ts';
import { ValiseError } from '../errors.ts';
import { ANYTHING, BYTES, checkOptions } from '../options.ts';
import type { Store } from '../store/types.ts';
import { COUNT, keyPart } from './limits.ts';
import { shardedIndex } from './record-index.ts';
import { values } from './values.ts';

/** Limits on the number of stored tokens and how long they are stored. */
export interface TokenStorageOptions {
  /**
   * The idle timeout of entries that FastMCP saves without a lifetime, such as registered clients.
   *
   * @defaultValue '90d'
   */
  readonly ttl?: Duration | undefined;
  /**
   * The maximum number of entries of each kind: clients, transactions, codes, tokens and so on. Further ones are
   * rejected (`limit-reached`), so that a stranger who registers clients evicts nobody. A limit above 256 is kept in
   * parts, and takes effect when one part is full, shortly before the whole is.
   *
   * @defaultValue 10000
   */
  readonly maxEntries?: number | undefined;
  /**
   * The maximum size of one entry, in bytes of JSON. Larger ones are rejected (`too-large`).
   *
   * @defaultValue 65536
   */
  readonly maxBytes?: number | undefined;
}

/** `TokenStorage` of FastMCP. */
export interface TokenStorage {
  get(key: string): Promise<unknown>;
  save(key: string, value: unknown, ttl?: number): Promise<void>;
  delete(key: string): Promise<void>;
  /** Reads and deletes an entry. At most one caller gets it, at whichever instance. */
  take(key: string): Promise<unknown>;
  /** Does nothing, because expired entries disappear by themselves. */
  cleanup(): Promise<void>;
}

const PREFIX = 'adapters/tokens/';

/**
 * Stores the codes, transactions, clients and tokens of FastMCP's OAuth proxy, for all instances that share the store.
 * An authorization code is redeemed once, at whichever instance.
 *
 * @throws ValiseError `invalid-argument` if an option is invalid.
 *
 * @example
 * ```ts
 * const server = new FastMCP({ auth: new GoogleProvider({ ...app, tokenStorage: tokenStorage(store) }) });
 * ```
 */
export function tokenStorage(store: Store, options: TokenStorageOptions = {}): TokenStorage {
  checkOptions('tokenStorage', options, { ttl: ANYTHING, maxEntries: COUNT, maxBytes: BYTES });
  const { maxEntries: max = 10_000, maxBytes = 65_536 } = options;
  const ttl = seconds(options.ttl ?? '90d');
  const tokens = values(store, `${PREFIX}entry/`, {
    kind: 'token',
    ttl,
    maxBytes,
    indexOf: (key) =>
      shardedIndex(store, `${PREFIX}index/${kindOf(key)}`, { max, ttl, full: () => full(max) }),
  });
  return {
    get: async (key) => (await tokens.get(key)) ?? null,
    save: (key, value, lifetime) => tokens.set(key, value, lifetime),
    delete: (key) => tokens.delete(key),
    take: async (key) => (await tokens.take(key)) ?? null,
    async cleanup() {},
  };
}

/** FastMCP starts its keys with the kind of entry: `client:`, `code:` and so on. */
function kindOf(key: string): string {
  return keyPart(/^\w{1,32}:/.exec(key)?.[0] ?? '');
}

function full(max: number): ValiseError {
  return new ValiseError('limit-reached', `The entry was not stored: there are about ${max} of its kind.`, {
    next: 'Raise maxEntries, or wait until unused entries have expired.',
    outcome: 'not-done',
  });
}
