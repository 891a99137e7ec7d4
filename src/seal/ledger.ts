import { ValiseError } from '../errors.ts';

/** Remembers which tokens have been used. */
export interface Ledger {
  /**
   * Marks `id` as used for `ttl` seconds. True for the one caller who did so, false for everybody after.
   * Rejects where it cannot tell; the token is refused then.
   */
  claim(id: string, ttl: number): Promise<boolean>;
}

/** What a ledger needs of a store; every `Store` of `mcp-valise/store` has it. */
export interface LedgerStore {
  put(
    key: string,
    value: number,
    options: { readonly ttl: number; readonly ifAbsent: true },
  ): Promise<string | undefined>;
}

/**
 * A ledger in a store, shared by all instances that share the store.
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
      // All that counts is that it is there; the value is the version of the record.
      return (await store.put(prefix + id, 1, { ttl, ifAbsent: true })) !== undefined;
    },
  };
}

/** Bounds of {@link memoryLedger}. */
export interface MemoryLedgerOptions {
  /** How many used tokens are remembered at a time (100,000 by default). One more is refused until some expire. */
  readonly max?: number;
  /** Milliseconds since 1970; for tests. */
  readonly now?: () => number;
}

/**
 * A ledger in this process, for a server of one process. Full, it refuses: forgetting a used token would let it be used again.
 *
 * @example
 * ```ts
 * const sealer = createSealer({ keys, ledger: memoryLedger() });
 * ```
 */
export function memoryLedger({ max = 100_000, now = () => Date.now() }: MemoryLedgerOptions = {}): Ledger {
  const ends = new Map<string, number>();
  let soonest = Number.POSITIVE_INFINITY;

  // A sweep is worth its time only once something has ended; else a full ledger would be swept on every call.
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
          throw new ValiseError('ledger-full', `The ledger already remembers ${max} used tokens.`, {
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
