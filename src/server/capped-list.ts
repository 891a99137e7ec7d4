import type { ValiseError } from '../core/errors.ts';
import { isObject } from '../core/json.ts';
import { sha256 } from '../core/sha256.ts';
import { clock } from '../store/kit/clock.ts';
import { type Collection, collection, type Members, recordsOf } from '../store/kit/collection.ts';
import type { Store } from '../store/types.ts';
import type { Recent } from './recent.ts';

/** A member of a list: its id, and a time that increases along the list. */
type Member = readonly [id: string, at: number];

/** The number of removed members whose tombstones are kept until a time. */
type Tombstones = readonly [until: number, count: number];

/** The content of a list. */
interface Content {
  readonly members: readonly Member[];
  readonly tombstones: readonly Tombstones[];
}

/** The capacity of a list, and what happens when it is full. */
export interface Cap {
  readonly max: number;
  /** Whether to refuse a new member. Otherwise the oldest one has to go. */
  readonly refuse: boolean;
  /** The maximum number of tombstones. Beyond that, new members are refused. */
  readonly maxTombstones?: number | undefined;
  /** Creates the error for a full list. It names the option that limits the list. */
  readonly full: () => ValiseError;
  /** Creates the error for too many tombstones. */
  readonly fullOfTombstones?: () => ValiseError;
  /** A member that must stay. */
  readonly spare?: string | undefined;
}

/** Options that all lists of one store share. */
export interface CappedListOptions {
  readonly store: Store;
  /** How long a list is kept after its last change, in seconds. */
  readonly ttl: number;
  /** How long a tombstone is kept, in seconds. */
  readonly tombstoneTtl: number;
  /** When each list was last found full, by name. */
  readonly full: Recent<number>;
}

/** One page of a list. */
export interface IdPage {
  readonly ids: readonly string[];
  /** The cursor of the next page, if there is one. */
  readonly next?: string;
}

/** How often a full list is checked at most, in milliseconds, since each check reads every member. */
const CHECK_INTERVAL = 1000;
/** The number of time steps in which tombstones are counted. */
const STEPS = 8;
/** The maximum number of lists that share the anonymous members, since every addition would change a single one. */
const SHARDS = 16;

const SCHEMA = recordsOf('session list');

/** A list of ids with a capacity. It is a single entry of the store, so that counting and adding is atomic. */
export class CappedList {
  readonly name: string;
  readonly #options: CappedListOptions;
  readonly #records: Collection<Members>;

  constructor(name: string, options: CappedListOptions) {
    this.name = name;
    this.#options = options;
    this.#records = collection(options.store, 'index/', SCHEMA, { unlisted: true });
  }

  /** Adds an id. Returns the ids that have to go for it. Throws if the list is full and none may go. */
  async add(
    id: string,
    created: number,
    { max, refuse, maxTombstones = Infinity, full, fullOfTombstones = full, spare }: Cap,
    exists: (id: string) => Promise<boolean>,
  ): Promise<readonly string[]> {
    let evicted: readonly Member[] = [];
    await this.#update(async ({ members, tombstones }) => {
      const now = clock.now();
      if (tombstones.reduce((sum, [, count]) => sum + count, 0) >= maxTombstones) throw fullOfTombstones();
      let others = members.filter(([each]) => each !== id);
      if (others.length >= max && !(refuse && this.#wasFull(now))) {
        const existing = await Promise.all(others.map(([each]) => exists(each)));
        others = others.filter((_, index) => existing[index]);
        if (others.length >= max) this.#options.full.set(this.name, now);
      }
      const excess = Math.max(0, others.length + 1 - max);
      evicted = refuse ? [] : others.filter(([each]) => each !== spare).slice(0, excess);
      if (evicted.length < excess) throw full();
      // Times are unique within a list, so that a page can end at one.
      const at = Math.max(created, (others.at(-1)?.[1] ?? 0) + 1);
      return {
        members: [...others.filter((member) => !evicted.includes(member)), [id, at]],
        tombstones: this.#addTombstones(tombstones, evicted.length),
      };
    });
    return evicted.map(([each]) => each);
  }

  /** Removes an id. Counts its tombstone if it has one. */
  async remove(id: string, { hasTombstone }: { readonly hasTombstone: boolean }): Promise<void> {
    await this.#update(async ({ members, tombstones }) => {
      if (!members.some(([each]) => each === id)) return undefined;
      return {
        members: members.filter(([each]) => each !== id),
        tombstones: this.#addTombstones(tombstones, hasTombstone ? 1 : 0),
      };
    });
  }

  /** Returns a page of ids, oldest first. Returns undefined if `after` is not the cursor of an earlier page. */
  async page(after: string | undefined, size: number): Promise<IdPage | undefined> {
    const last = after === undefined ? 0 : readCursor(after);
    if (last === undefined) return undefined;
    const members = itemsIn<Member>((await this.#records.get(this.name))?.value, 'places');
    const rest = members.filter(([, at]) => at > last);
    const page = rest.slice(0, size);
    const ids = page.map(([id]) => id);
    return rest.length > size ? { ids, next: cursorOf(page[size - 1]?.[1] ?? 0) } : { ids };
  }

  async #update(change: (content: Content) => Promise<Content | undefined>): Promise<void> {
    const { ttl, tombstoneTtl } = this.#options;
    await this.#records.update(
      this.name,
      async (found) => {
        const now = clock.now();
        const next = await change({
          members: itemsIn<Member>(found?.value, 'places'),
          tombstones: itemsIn<Tombstones>(found?.value, 'ended').filter(([until]) => until > now),
        });
        if (!next) return undefined;
        const { members, tombstones } = next;
        if (tombstones.length > 0) return { places: members, ended: tombstones };
        return members.length === 0 ? null : { places: members };
      },
      // A list without members only counts tombstones.
      { ttl: (next) => (itemsIn(next, 'places').length > 0 ? ttl : Math.max(1, tombstoneTtl * 1.25)) },
    );
  }

  #wasFull(now: number): boolean {
    return now - (this.#options.full.get(this.name) ?? 0) < CHECK_INTERVAL;
  }

  #addTombstones(tombstones: readonly Tombstones[], count: number): readonly Tombstones[] {
    if (count === 0) return tombstones;
    const length = this.#options.tombstoneTtl * 1000;
    const step = Math.max(1, Math.floor(length / STEPS));
    const until = Math.ceil((clock.now() + length) / step) * step;
    const same = tombstones.find(([each]) => each === until)?.[1] ?? 0;
    return [...tombstones.filter(([each]) => each !== until), [until, same + count]];
  }
}

/** Adds an id to each list, or to none. Returns the ids that have to go for it. */
export async function addToAll(
  lists: readonly (readonly [CappedList, Cap])[],
  { id, created }: { readonly id: string; readonly created: number },
  exists: (id: string) => Promise<boolean>,
): Promise<readonly string[]> {
  const added: CappedList[] = [];
  const evicted: string[] = [];
  try {
    for (const [list, cap] of lists) {
      evicted.push(...(await list.add(id, created, cap, exists)));
      added.push(list);
    }
  } catch (error) {
    for (const list of added) await list.remove(id, { hasTombstone: false });
    throw error;
  }
  return evicted;
}

/** Returns which of several lists an anonymous member belongs to. Small limits are not divided, so that they stay accurate. */
export function shardOf(id: string, max: number): { readonly name: string; readonly count: number } {
  const count = Math.min(SHARDS, Math.max(1, Math.floor(max / 500)));
  const shard = Buffer.from(sha256(id), 'base64url').readUInt16BE(0) % count;
  return { name: `anonymous/${shard}`, count };
}

function readCursor(cursor: string): number | undefined {
  return /^at-[0-9a-z]{1,11}$/.test(cursor) ? Number.parseInt(cursor.slice(3), 36) : undefined;
}

function cursorOf(at: number): string {
  return `at-${at.toString(36)}`;
}

/**
 * Returns the list that a record has under a name, or an empty one.
 *
 * It skips items that no version has written.
 */
export function itemsIn<Item>(record: unknown, name: string): readonly Item[] {
  const list = isObject(record) ? record[name] : undefined;
  return Array.isArray(list) ? (list.filter(isItem) as readonly Item[]) : [];
}

/** Whether an item is a name, or a name or time in a pair with a number. */
function isItem(item: unknown): boolean {
  if (!Array.isArray(item)) return typeof item === 'string';
  return /^(string|number)$/.test(typeof item[0]) && Number.isFinite(item[1]);
}
