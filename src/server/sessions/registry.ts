import { sha256 } from '../../sha256.ts';
import { type Collection, collection } from '../../store/kit/collection.ts';
import { secondsUntil } from '../../store/kit/update.ts';
import { namespaced } from '../../store/namespace.ts';
import type { PutOptions, Store } from '../../store/types.ts';
import type { Caller, Held, Quota } from '../quota.ts';
import { Recent } from '../recent.ts';
import type { RecordProof } from './record-proof.ts';
import { isBeginning, isLiving, ROWS, type Row } from './row.ts';
import { type Cap, Shelf, type ShelfOptions, tooMuch } from './shelf.ts';

/** A session record, and the version by which it can be replaced. */
export interface Found {
  readonly row: Row;
  readonly version: string;
}

/** Options of {@link Registry.replace}. */
export interface ReplaceOptions {
  /** The record found before, so that the first attempt need not read it. */
  readonly seen?: Found | undefined;
  /** How long the new record stays, in seconds. The default is its session's lifetime and a while after. */
  readonly ttl?: number | undefined;
}

/** A session that was added, and the ids of those that must end for it. */
export interface Added {
  readonly added: Found;
  readonly crowded: readonly string[];
}

/** The lists in which a session needs a place, with their limits. */
export type Caps = readonly (readonly [list: string, cap: Cap])[];

/** One page of a list. */
export interface RowPage {
  readonly rows: readonly Row[];
  readonly next?: string;
}

/** Options of a `Registry`. Times are in seconds. */
export interface RegistryOptions {
  /** Whether records must stay readable for a while after their session expired. */
  readonly lingers: boolean;
  /** How long a seal can be presented. */
  readonly ttl: number;
  /** The maximum lifetime of a session, and of an anonymous one. */
  readonly longest: number;
  readonly longestAnonymous: number;
  /** Proves that this server wrote a record. Without it, records are trusted. */
  readonly proof?: RecordProof | undefined;
  /** Counts the bytes of state in anonymous sessions. */
  readonly states: Quota;
}

const PAGE = 50;
/** The number of full lists that are remembered as full. */
const LISTS = 1024;
/** How long a record stays after its session expired, in seconds, if `onEnd` has yet to be called. */
export const LINGER = 86_400;
/** The server's sessions: a record for each, and a list of them for each owner. */
export class Registry {
  readonly store: Store;
  readonly #rows: Collection<Row>;
  readonly #linger: number;
  readonly #proof: RecordProof | undefined;
  readonly #shelves: ShelfOptions;
  readonly #longestAnonymous: number;
  readonly #states: Quota;

  constructor(
    store: Store,
    name: string,
    { lingers, ttl, longest, longestAnonymous, proof, states }: RegistryOptions,
  ) {
    this.#proof = proof;
    this.store = namespaced(store, `sessions/${sha256(name).slice(0, 16)}/`);
    this.#rows = collection(this.store, 'row/', ROWS, { unlisted: true, durable: true });
    this.#linger = lingers ? LINGER : 0;
    const tombstone = Math.max(ttl, this.#linger);
    this.#shelves = { store: this.store, ttl: longest, tombstone, full: new Recent(LISTS) };
    this.#longestAnonymous = longestAnonymous;
    this.#states = states;
  }

  /** Returns the record of a session. Throws `store-newer` if a later release wrote it. */
  find(id: string): Promise<Found | undefined> {
    return this.#rows.get(sha256(id)).then((found) => {
      const row = found && this.#genuine(id, found.value);
      return row && { row, version: found.version };
    });
  }

  /** Adds a session. Returns the ids of those that must end for it. Throws if there is no room. */
  async add(row: Row, caps: Caps): Promise<Added> {
    const _key = sha256(row.id);
    // The record is written first: whoever has to end a session of the list must find it.
    const version = (await this.#put(row, {})) ?? '';
    try {
      return { added: { row, version }, crowded: await this.reserve(row, caps) };
    } catch (error) {
      await this.remove(row.id);
      throw error;
    }
  }

  /** Takes a place in each list, or in none. Returns the ids that must end. */
  async reserve({ id, created }: Pick<Row, 'id' | 'created'>, caps: Caps): Promise<readonly string[]> {
    const taken: string[] = [];
    const crowded: string[] = [];
    try {
      for (const [name, cap] of caps) {
        crowded.push(...(await this.#shelf(name).add(id, created, cap, (each) => this.#lives(each))));
        taken.push(name);
      }
    } catch (error) {
      for (const name of taken) await this.#shelf(name).remove(id, { ended: false });
      throw error;
    }
    return crowded;
  }

  /** Replaces the record found with `row`. Returns the new version, or undefined if somebody else has changed it. */
  save(row: Row, { version }: Found): Promise<string | undefined> {
    return this.#put(row, { ifVersion: version });
  }

  /**
   * Replaces a record with what `change` returns, even if others change it at the same time.
   *
   * Returns undefined if `change` leaves the record as it is, or if the record is unreadable or not genuine, since another
   * instance may depend on it.
   */
  async replace(
    id: string,
    change: (row: Row | undefined) => Row | undefined,
    { seen, ttl }: ReplaceOptions = {},
  ): Promise<Found | undefined> {
    let next: Row | undefined;
    let counted: ((isWritten: boolean) => void) | undefined;
    let version: unknown;
    try {
      version = await this.#rows.update(
        sha256(id),
        (found) => {
          const row = found && this.#genuine(id, found.value);
          next = found && !row ? undefined : change(row);
          counted?.(false);
          counted = next && this.#count(next, ttl ?? this.#ttl(next));
          return next && this.#signed(next);
        },
        {
          ttl: () => ttl ?? (next ? this.#ttl(next) : undefined),
          seen: seen && { found: { value: seen.row, version: seen.version } },
        },
      );
    } finally {
      counted?.(typeof version === 'string');
    }
    return next && typeof version === 'string' ? { row: next, version } : undefined;
  }

  /**
   * Writes a record if there is none or its session is over. Returns false if the session is alive.
   *
   * The result includes the record that was there before.
   */
  async claim(row: Row): Promise<false | { readonly claimed: Found; readonly before: Row | undefined }> {
    let before: Row | undefined;
    const claimed = await this.replace(row.id, (now) => {
      before = now;
      // Whoever begins a session holds its lease, so another instance that was beginning it has died.
      const isFree = !now || !isLiving(now) || (row.beginning && now.beginning);
      return isFree ? row : undefined;
    });
    return claimed ? { claimed, before } : false;
  }

  /** Undoes {@link add}. */
  async drop(row: Pick<Row, 'id' | 'shelf' | 'places'>): Promise<void> {
    await this.remove(row.id);
    await this.#leave(row, false);
  }

  /** Records that `onEnd` has been called. Does nothing if somebody else has changed the record. */
  async noteTold(row: Row, { version }: Found, ttl: number): Promise<void> {
    await this.#put({ ...row, told: true, data: null }, { ifVersion: version }, ttl);
  }

  async remove(id: string): Promise<void> {
    await this.#rows.delete(sha256(id));
    this.#states.release(id);
  }

  /** Removes a session that has ended from its lists. */
  async unlist(row: Row): Promise<void> {
    await this.#leave(row, true);
  }

  /** Returns the usable sessions of a list, oldest first. */
  async list(shelf: string, after?: string): Promise<RowPage> {
    const { ids, next } = await this.#shelf(shelf).page(after, PAGE);
    const found = await Promise.all(ids.map((id) => this.find(id)));
    const rows = found.flatMap((each) =>
      each && each.row.shelf === shelf && isLiving(each.row) && !isBeginning(each.row) ? [each.row] : [],
    );
    return next === undefined ? { rows } : { rows, next };
  }

  async #leave(
    { id, shelf, places = [] }: Pick<Row, 'id' | 'shelf' | 'places'>,
    ended: boolean,
  ): Promise<void> {
    for (const name of shelf === '' ? places : [shelf, ...places])
      await this.#shelf(name).remove(id, { ended });
  }

  async #lives(id: string): Promise<boolean> {
    // Subscribers without a session take places too. Their subscriptions are recorded under the id itself.
    if (id.startsWith('subscriber/')) return (await this.store.get(id)) !== undefined;
    const found = await this.find(id);
    return found !== undefined && isLiving(found.row);
  }

  async #put(
    row: Row,
    condition: Pick<PutOptions, 'ifAbsent' | 'ifVersion'>,
    ttl = this.#ttl(row),
  ): Promise<string | undefined> {
    const counted = this.#count(row, ttl);
    const version = await this.#rows.put(sha256(row.id), this.#signed(row), { ttl, ...condition });
    counted(version !== undefined);
    return version;
  }

  /**
   * Counts the state of a record. Throws if an anonymous session exceeds the limit.
   *
   * Call the returned function with whether the record was written.
   */
  #count(row: Row, ttl: number): (isWritten: boolean) => void {
    const { id, data, places } = row;
    if (row.owner !== null || data === null)
      return (isWritten) => {
        if (isWritten) this.#states.release(id);
      };
    const name = places?.find((each) => each.startsWith(CALLER));
    const bytes = Buffer.byteLength(JSON.stringify(data));
    const undo = countState(this.#states, { name, isAnonymous: true }, { key: id, bytes, ttl });
    return (isWritten) => {
      if (!isWritten) undo();
    };
  }

  #signed(row: Row): Row {
    return this.#proof?.signed(row) ?? row;
  }

  #genuine(id: string, row: Row | undefined): Row | undefined {
    return row?.id === id && (this.#proof?.isGenuine(row) ?? true) ? row : undefined;
  }

  #shelf(name: string): Shelf {
    const isOfPrincipal = name.startsWith('principal/') || name.startsWith('stand-in/');
    const ttl = isOfPrincipal ? this.#shelves.ttl : this.#longestAnonymous;
    return new Shelf(name, { ...this.#shelves, ttl });
  }

  #ttl({ expires }: Row): number {
    return secondsUntil(expires) + this.#linger;
  }
}

const CALLER = 'caller/';

/** Returns the list for the caller of anonymous sessions. */
export function callerList({ name }: Caller): string | undefined {
  return name === undefined ? undefined : `${CALLER}${sha256(name)}`;
}

/** Counts the state of an anonymous session. Throws if it exceeds the limit. Returns a function that undoes the count. */
export function countState(states: Quota, caller: Caller, held: Held): () => void {
  const taken = states.take(caller, held);
  if (typeof taken === 'function') return taken;
  throw tooMuch(`sessions.maxAnonymousBytes${taken === 'caller-bytes' ? ', the share of one caller' : ''}`);
}
