import { ValiseError } from '../../errors.ts';
import { sha256 } from '../../sha256.ts';
import { namespaced } from '../../store/namespace.ts';
import type { Store } from '../../store/types.ts';
import type { Exchange } from '../exchange.ts';
import { Quota } from '../quota.ts';
import { Recent } from '../recent.ts';
import { type Cap, Shelf, type ShelfOptions } from '../sessions/shelf.ts';

/** Limits on the entries that the store keeps for clients that carry no state: one for each scope of a session. */
export interface PlacesSettings {
  /** The limit for one principal. A further entry replaces the oldest. */
  readonly maxPerPrincipal: number;
  /** The limit for all anonymous clients together. Any further entry is refused. */
  readonly maxAnonymous: number;
  /** The limit for one anonymous caller. */
  readonly maxAnonymousPerCaller: number;
  /** The maximum size of all entries of anonymous clients together, in bytes. */
  readonly maxAnonymousBytes: number;
}

const SHARDS = 16;

/** Limits how many entries the store keeps for callers. */
export class StatePlaces {
  readonly #store: Store;
  readonly #settings: PlacesSettings;
  readonly #shelves: ShelfOptions;

  /** Creates the limits. `ttl` is how long an entry stays without being used, in seconds. */
  constructor(store: Store, name: string, ttl: number, settings: PlacesSettings) {
    this.#store = store;
    this.#settings = settings;
    const own = namespaced(store, `state-places/${sha256(name).slice(0, 16)}/`);
    this.#shelves = { store: own, ttl: 2 * ttl, tombstone: 0, full: new Recent(1024) };
  }

  /** Takes a place for an entry that is about to be written. Throws if there is none. */
  async take(exchange: Exchange, key: string): Promise<void> {
    const taken: Shelf[] = [];
    try {
      for (const [name, cap] of this.#caps(exchange, key)) {
        const shelf = new Shelf(name, this.#shelves);
        const crowded = await shelf.add(
          key,
          Date.now(),
          cap,
          async (each) => !!(await this.#store.get(each)),
        );
        for (const old of crowded) await this.#store.delete(old);
        taken.push(shelf);
      }
    } catch (error) {
      for (const shelf of taken) await shelf.remove(key, { ended: false });
      throw error;
    }
  }

  #caps({ principal, caller }: Exchange, key: string): readonly (readonly [list: string, cap: Cap])[] {
    const { maxPerPrincipal, maxAnonymous, maxAnonymousPerCaller } = this.#settings;
    const own = caller.name === undefined ? undefined : `caller/${sha256(caller.name)}`;
    if (principal !== undefined && own !== undefined)
      return [[own, { max: maxPerPrincipal, refuse: false, full: () => tooMuch('state.maxPerPrincipal') }]];
    const shards = Math.min(SHARDS, Math.max(1, Math.floor(maxAnonymous / 500)));
    const shard = Buffer.from(sha256(key), 'base64url').readUInt16BE(0) % shards;
    const total = {
      max: Math.floor(maxAnonymous / shards),
      refuse: true,
      full: () => tooMuch('state.maxAnonymous'),
    };
    const one = {
      max: maxAnonymousPerCaller,
      refuse: true,
      full: () => tooMuch('state.maxAnonymousPerCaller'),
    };
    return [[`anonymous/${shard}`, total], ...(own === undefined ? [] : [[own, one] as const])];
  }
}

/** The same limits for connections of this process, whose entries end when they close. */
export class LocalPlaces {
  readonly #ofNobody: Quota;
  readonly #ofPrincipals: Quota;

  constructor({ maxPerPrincipal, maxAnonymous, maxAnonymousPerCaller }: PlacesSettings) {
    this.#ofNobody = new Quota({
      perCaller: { count: maxAnonymousPerCaller },
      total: { count: maxAnonymous },
    });
    this.#ofPrincipals = new Quota({ perCaller: { count: maxPerPrincipal }, total: {} });
  }

  /** Takes a place. Returns a function that releases it. */
  take({ principal, caller }: Exchange): () => void {
    const place = (principal ? this.#ofPrincipals : this.#ofNobody).take(caller);
    if (typeof place === 'function') return place;
    if (principal) throw tooMuch('state.maxPerPrincipal');
    throw tooMuch(`state.maxAnonymous${place === 'caller-count' ? 'PerCaller' : ''}`);
  }
}

export function tooMuch(limit: string): ValiseError {
  return new ValiseError('limit-reached', `The server keeps too much state already (${limit}).`, {
    next: 'Try again later, sign in, or use a client that carries its state.',
  });
}
