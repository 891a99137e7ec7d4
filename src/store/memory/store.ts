import type { Json } from '../../core/json.ts';
import { checkKey, closedError, declareSecrecy, nextVersion, toMilliseconds, toText } from '../driver.ts';
import { pageOf } from '../page.ts';
import type { Entry, KeyPage, Lease, ListOptions, PutOptions, Store } from '../types.ts';

interface Slot {
  readonly text: string;
  readonly version: string;
  /** Infinity if the entry does not expire. */
  readonly expiresAt: number;
}

interface Holder {
  readonly fence: number;
  readonly until: number;
}

/**
 * Creates a store in memory, for tests, for experiments, and for data that may be lost.
 *
 * @example
 * ```ts
 * const store = memoryStore();
 * const version = await store.put('cart/7', { items: ['tea'] });
 * await store.put('cart/7', { items: [] }, { ifVersion: version });
 * ```
 */
export function memoryStore(): Store {
  return declareSecrecy(new MemoryStore(), 'memory');
}

class MemoryStore implements Store {
  // Slots contain JSON text instead of values, so that nobody can change a stored value through a reference.
  readonly #slots = new Map<string, Slot>();
  readonly #holders = new Map<string, Holder>();
  #fence = 0;
  #sorted: string[] | undefined;
  #sweep = this.#slots.entries();
  #closed = false;

  async get(key: string): Promise<Entry | undefined> {
    this.#check(key);
    const slot = this.#living(key);
    if (!slot) return undefined;
    const { text, version, expiresAt } = slot;
    const value = JSON.parse(text) as Json;
    return expiresAt === Number.POSITIVE_INFINITY ? { value, version } : { value, version, expiresAt };
  }

  async put(key: string, value: Json, options?: PutOptions): Promise<string | undefined> {
    this.#check(key);
    const text = toText(key, value);
    let expiresAt = Number.POSITIVE_INFINITY;
    if (options !== undefined) {
      const { ttl, ifVersion, ifAbsent } = options;
      if (ttl !== undefined) expiresAt = Date.now() + toMilliseconds(ttl);
      if (ifVersion !== undefined && this.#living(key)?.version !== ifVersion) return undefined;
      if (ifAbsent && this.#living(key)) return undefined;
    }
    const version = nextVersion();
    const before = this.#slots.size;
    this.#slots.set(key, { text, version, expiresAt });
    if (this.#slots.size !== before) this.#sorted = undefined;
    this.#sweepSome();
    return version;
  }

  async delete(key: string, { ifVersion }: { readonly ifVersion?: string } = {}): Promise<boolean> {
    this.#check(key);
    const slot = this.#living(key);
    if (!slot || (ifVersion !== undefined && slot.version !== ifVersion)) return false;
    this.#drop(key);
    return true;
  }

  async list(prefix: string, options: ListOptions = {}): Promise<KeyPage> {
    if (this.#closed) throw closedError();
    this.#sorted ??= [...this.#slots.keys()].sort();
    return pageOf(this.#sorted, prefix, options, (key) => this.#living(key) !== undefined);
  }

  async lease(key: string, ttl: number): Promise<Lease | undefined> {
    this.#check(key);
    const length = toMilliseconds(ttl);
    const now = Date.now();
    this.#sweepLeases(now);
    if ((this.#holders.get(key)?.until ?? 0) > now) return undefined;
    const fence = ++this.#fence;
    // The lease is removed first, so that the sweep always meets the oldest lease first.
    this.#holders.delete(key);
    this.#holders.set(key, { fence, until: now + length });
    const mine = () => {
      const holder = this.#holders.get(key);
      return holder?.fence === fence && holder.until > Date.now();
    };
    return {
      fence,
      renew: async (again) => {
        if (this.#closed) throw closedError();
        const more = toMilliseconds(again);
        if (!mine()) return false;
        this.#holders.set(key, { fence, until: Date.now() + more });
        return true;
      },
      release: async () => {
        if (mine()) this.#holders.delete(key);
      },
    };
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#slots.clear();
    this.#holders.clear();
  }

  #check(key: string): void {
    if (this.#closed) throw closedError();
    checkKey(key);
  }

  #living(key: string): Slot | undefined {
    const slot = this.#slots.get(key);
    if (slot === undefined || slot.expiresAt > Date.now()) return slot;
    this.#drop(key);
    return undefined;
  }

  #drop(key: string): void {
    this.#slots.delete(key);
    this.#sorted = undefined;
    // An iterator retains the table it last visited, with all its content, even after the map has created a smaller one.
    if (this.#sweep.next().done) this.#sweep = this.#slots.entries();
  }

  #sweepLeases(now: number): void {
    let looked = 0;
    for (const [key, { until }] of this.#holders) {
      if (until <= now) this.#holders.delete(key);
      if (++looked === 8) return;
    }
  }

  /** Checks two entries with every write, so that expired entries that are never read do not accumulate. */
  #sweepSome(): void {
    for (let looked = 0; looked < 2; looked++) {
      const next = this.#sweep.next();
      if (next.done) {
        this.#sweep = this.#slots.entries();
        return;
      }
      const [key, slot] = next.value;
      if (slot.expiresAt !== Number.POSITIVE_INFINITY && slot.expiresAt <= Date.now()) this.#drop(key);
    }
  }
}
