import { ValiseError } from '../core/errors.ts';

/** Records which tokens have been used. */
export interface Ledger {
  /**
   * Marks `id` as used for `ttl` seconds. Returns true for the one caller that did so, and false for every later one.
   * Rejects if it cannot tell; the token is then rejected.
   */
  claim(id: string, ttl: number): Promise<boolean>;
}

/** The part of a store that a ledger needs. Every `Store` of `mcp-valise/store` provides it. */
export interface LedgerStore {
  put(
    key: string,
    value: number,
    options: { readonly ttl: number; readonly ifAbsent: true },
  ): Promise<string | undefined>;
}

/**
 * Creates a ledger in a store, shared by all instances that share the store.
 *
 * @example
 * ```ts
 * const sealer = createSealer({ keys, audience: 'work-items', ledger: storeLedger(store) });
 * const value = await sealer.openOnce(token, { purpose: 'round' });
 * ```
 */
export function storeLedger(
  store: LedgerStore,
  { prefix = 'seal/used/' }: { readonly prefix?: string } = {},
): Ledger {
  return {
    async claim(id, ttl) {
      // Only the presence of the entry matters. The value is the version of the record format.
      return (await store.put(prefix + id, 1, { ttl, ifAbsent: true })) !== undefined;
    },
  };
}

/** Options of {@link memoryLedger}. */
export interface MemoryLedgerOptions {
  /** The maximum number of used tokens to remember (100,000 by default). Further tokens are rejected until some expire. */
  readonly max?: number;
  /** Returns milliseconds since 1970. For tests. */
  readonly now?: () => number;
}

/**
 * Creates a ledger in memory, for a server with a single process. A full ledger rejects tokens, because forgetting a
 * used token would allow its reuse.
 *
 * @example
 * ```ts
 * const sealer = createSealer({ keys, ledger: memoryLedger() });
 * ```
 */
export function memoryLedger({ max = 100_000, now = () => Date.now() }: MemoryLedgerOptions = {}): Ledger {
  const ends = new Map<string, number>();
  let soonest = Number.POSITIVE_INFINITY;

  // Sweeping pays off only after an entry has expired; otherwise every call on a full ledger would sweep it.
  const sweep = (time: number) => {
    soonest = Number.POSITIVE_INFINITY;
    for (const [id, end] of ends) {
      if (end <= time) ends.delete(id);
      else if (end < soonest) soonest = end;
    }
  };

  return {
    async claim(id, ttl) {
      const time = now();
      const end = ends.get(id);
      if (end !== undefined && end > time) return false;
      if (end === undefined && ends.size >= max) {
        if (soonest <= time) sweep(time);
        if (ends.size >= max) {
          throw new ValiseError('limit-reached', `The ledger already remembers ${max} used tokens.`, {
            next: 'Give it a higher max, or keep it in a store with storeLedger().',
          });
        }
      }
      const until = time + ttl * 1000;
      ends.set(id, until);
      if (until < soonest) soonest = until;
      return true;
    },
  };
}
