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

/** A row, and the version by which it can be replaced. */
export interface Found {
  readonly row: Row;
  readonly version: string;
}

/** How {@link Registry.replace} goes about it. */
export interface ReplaceOptions {
  /** What was found before, so that the first attempt need not read it. */
  readonly seen?: Found | undefined;
  /** How long the new row stays, in seconds; by default as long as its session, and for a while after. */
  readonly ttl?: number | undefined;
}

/** A session that was added, and the ids of those that have to go for it. */
export interface Added {
  readonly added: Found;
  readonly crowded: readonly string[];
}

/** Lists in which a session needs a place, with their limits. */
export type Caps = readonly (readonly [list: string, cap: Cap])[];

/** One page of a list. */
export interface RowPage {
  readonly rows: readonly Row[];
  readonly next?: string;
}

/** How long things are kept, in seconds. */
export interface RegistryOptions {
  /** True where rows must be found for a while after their session ran out. */
  readonly lingers: boolean;
  /** How long a seal can be shown. */
  readonly ttl: number;
  /** The longest life of a session, and of one that belongs to nobody. */
  readonly longest: number;
  readonly longestAnonymous: number;
  /** Proves that this server wrote a record; without it, records are believed. */
  readonly proof?: RecordProof | undefined;
  /** Counts the bytes of state in sessions that belong to nobody. */
  readonly states: Quota;
}

const PAGE = 50;
/** Of how many full lists it is remembered that they are. */
const LISTS = 1024;
/** How long a row stays after its session ran out, where somebody has yet to be told. */
export const LINGER = 86_400;
/** What a server knows about its sessions: a row for each, and a list of them for each owner. */
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
    this.#rows = collection(this.store, 'row/', ROWS);
    this.#linger = lingers ? LINGER : 0;
    const tombstone = Math.max(ttl, this.#linger);
    this.#shelves = { store: this.store, ttl: longest, tombstone, full: new Recent(LISTS) };
    this.#longestAnonymous = longestAnonymous;
    this.#states = states;
  }

  /** Throws `store-newer` for a session of a later release. */
  find(id: string): Promise<Found | undefined> {
    return this.#rows.get(sha256(id)).then((found) => {
      const row = found && this.#genuine(id, found.value);
      return row && { row, version: found.version };
    });
  }

  /** Adds a session. Those that had to go for it come back; an error where there is no room. */
  async add(row: Row, caps: Caps): Promise<Added> {
    const _key = sha256(row.id);
    // The row comes first: whoever has to end a session of the list must find it.
    const version = (await this.#put(row, {})) ?? '';
    try {
      return { added: { row, version }, crowded: await this.reserve(row, caps) };
    } catch (error) {
      await this.remove(row.id);
      throw error;
    }
  }

  /** Takes a place in each list, or in none. The ids that had to go come back. */
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

  /** Puts `row` in the place of the one found, where nobody else has; the new version, or undefined. */
  save(row: Row, { version }: Found): Promise<string | undefined> {
    return this.#put(row, { ifVersion: version });
  }

  /**
   * Puts what `change` makes of a row in its place, whoever else changes it at the same time. Undefined if `change` leaves it as
   * it is, or if there is one that cannot be read or is not genuine: another instance may live on it.
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

  /** Writes a row where there is none, or one of a session that is over, which comes back. False where there is a living one. */
  async claim(row: Row): Promise<false | { readonly claimed: Found; readonly before: Row | undefined }> {
    let before: Row | undefined;
    const claimed = await this.replace(row.id, (now) => {
      before = now;
      // Whoever begins a session holds its lease: another one that was beginning it has died.
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

  /** Notes that the author has been told of an end; nothing happens if somebody else has changed the row. */
  async noteTold(row: Row, { version }: Found, ttl: number): Promise<void> {
    await this.#put({ ...row, told: true, data: null }, { ifVersion: version }, ttl);
  }

  async remove(id: string): Promise<void> {
    await this.#rows.delete(sha256(id));
    this.#states.release(id);
  }

  /** Takes a session that has ended off its lists. */
  async unlist(row: Row): Promise<void> {
    await this.#leave(row, true);
  }

  /** The sessions of a list that can be used, oldest first. */
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
    // Subscribers without a session take places too; what they subscribed to is noted under the id itself.
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
    const version = await this.#rows.put(sha256(row.id), this.#signed(row), {
      ttl,
      durable: true,
      ...condition,
    });
    counted(version !== undefined);
    return version;
  }

  /** Counts the state of a row; throws if it is nobody's, and more than such sessions may have. To be told whether it was written. */
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

/** The list that names the caller of what belongs to nobody. */
export function callerList({ name }: Caller): string | undefined {
  return name === undefined ? undefined : `${CALLER}${sha256(name)}`;
}

/** Counts state of a session that belongs to nobody; throws if it is too much. Returns what undoes it. */
export function countState(states: Quota, caller: Caller, held: Held): () => void {
  const taken = states.take(caller, held);
  if (typeof taken === 'function') return taken;
  throw tooMuch(`sessions.maxAnonymousBytes${taken === 'caller-bytes' ? ', the share of one caller' : ''}`);
}
