import { ValiseError } from '../../core/errors.ts';
import { sha256 } from '../../core/sha256.ts';
import { namespaced } from '../../store/namespace.ts';
import type { Store } from '../../store/types.ts';
import { addToAll, type Cap, CappedList, type CappedListOptions, shardOf } from '../capped-list.ts';
import type { Exchange } from '../exchange.ts';
import { Quota } from '../quota.ts';
import { Recent } from '../recent.ts';

/** Limits on what the store keeps for clients that carry no state: one record for each scope of a session. */
export interface JarLimitSettings {
  /** The number of records of one principal. A further one replaces the oldest. */
  readonly maxPerPrincipal: number;
  /** The number of records of all anonymous clients together. Any further one is refused. */
  readonly maxAnonymous: number;
  /** The number of records of one anonymous caller. */
  readonly maxAnonymousPerCaller: number;
  /** The maximum size of all records of anonymous clients together, in bytes. */
  readonly maxAnonymousBytes: number;
}

/** Limits the records that the store keeps for callers. */
export class JarLimits {
  readonly #name: string;
  readonly #ttl: number;
  readonly #settings: JarLimitSettings;
  readonly #lists = new Map<Store, CappedListOptions>();
  readonly #anonymous: Quota;
  readonly #principals: Quota;
  readonly #bytes: Quota;

  /** Creates the limits of a server. `ttl` is how long a record stays without being used, in seconds. */
  constructor(name: string, ttl: number, settings: JarLimitSettings) {
    this.#name = name;
    this.#ttl = ttl;
    this.#settings = settings;
    const { maxPerPrincipal, maxAnonymous, maxAnonymousPerCaller, maxAnonymousBytes } = settings;
    this.#anonymous = new Quota({
      perCaller: { count: maxAnonymousPerCaller },
      total: { count: maxAnonymous },
    });
    this.#principals = new Quota({ perCaller: { count: maxPerPrincipal }, total: {} });
    this.#bytes = new Quota({
      perCaller: { bytes: maxAnonymousBytes / 10 },
      total: { bytes: maxAnonymousBytes },
    });
  }

  /** Counts a record that is about to be written. Throws if there is no room for it. */
  async add(exchange: Exchange, key: string, store: Store): Promise<void> {
    const record = { id: key, created: Date.now() };
    const evicted = await addToAll(
      this.#listsFor(exchange, key, store),
      record,
      async (each) => (await store.get(each)) !== undefined,
    );
    for (const old of evicted) await store.delete(old);
  }

  /** Counts a record that ends with its connection. Returns a function that releases it. */
  addToConnection({ principal, caller }: Exchange): () => void {
    const taken = (principal ? this.#principals : this.#anonymous).take(caller);
    if (typeof taken === 'function') return taken;
    if (principal) throw tooMuch('state.maxPerPrincipal');
    throw tooMuch(`state.maxAnonymous${taken === 'caller-count' ? 'PerCaller' : ''}`);
  }

  /** Counts the bytes of a record. Throws if they exceed the limit. Returns a function that undoes the count. */
  countBytes({ caller }: Exchange, key: string, bytes: number, ttl: number): () => void {
    const taken = this.#bytes.take(caller, { key, bytes, ttl });
    if (typeof taken === 'function') return taken;
    throw tooMuch(`state.maxAnonymousBytes${taken === 'caller-bytes' ? ', the share of one caller' : ''}`);
  }

  /** Forgets the bytes of a record that has been deleted. */
  releaseBytes(key: string): void {
    this.#bytes.release(key);
  }

  #listsFor(
    { principal, caller }: Exchange,
    key: string,
    store: Store,
  ): readonly (readonly [CappedList, Cap])[] {
    const { maxPerPrincipal, maxAnonymous, maxAnonymousPerCaller } = this.#settings;
    const list = (name: string, max: number, option: string, refuse = true): readonly [CappedList, Cap] => [
      new CappedList(name, this.#optionsFor(store)),
      { max, refuse, full: () => tooMuch(`state.${option}`) },
    ];
    const own = caller.name === undefined ? undefined : `caller/${sha256(caller.name)}`;
    if (principal !== undefined && own !== undefined)
      return [list(own, maxPerPrincipal, 'maxPerPrincipal', false)];
    const shard = shardOf(key, maxAnonymous);
    const total = list(shard.name, Math.floor(maxAnonymous / shard.count), 'maxAnonymous');
    return own === undefined ? [total] : [total, list(own, maxAnonymousPerCaller, 'maxAnonymousPerCaller')];
  }

  #optionsFor(store: Store): CappedListOptions {
    let options = this.#lists.get(store);
    if (!options) {
      const own = namespaced(store, `state-places/${sha256(this.#name).slice(0, 16)}/`);
      options = { store: own, ttl: 2 * this.#ttl, tombstoneTtl: 0, full: new Recent(1024) };
      this.#lists.set(store, options);
    }
    return options;
  }
}

function tooMuch(limit: string): ValiseError {
  return new ValiseError('limit-reached', `The server keeps too much state already (${limit}).`, {
    next: 'Try again later, sign in, or use a client that carries its state.',
  });
}
