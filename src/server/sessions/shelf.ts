import { ValiseError } from '../../errors.ts';
import { isObject } from '../../json.ts';
import { clock } from '../../store/kit/clock.ts';
import { type Collection, collection, type Members, recordsOf } from '../../store/kit/collection.ts';
import type { Store } from '../../store/types.ts';
import { CallerLimitError } from '../quota.ts';
import type { Recent } from '../recent.ts';

/** A session in a list: its id, and a time that increases along the list. */
type Place = readonly [id: string, at: number];

/** The number of ended sessions whose tombstones are kept until a time. */
type Ended = readonly [until: number, count: number];

/** The value of an entry. */
interface Places {
  readonly places: readonly Place[];
  readonly ended: readonly Ended[];
}

/** The capacity of a list, and what happens when it is full. */
export interface Cap {
  readonly max: number;
  /** Whether to refuse the new session. Otherwise the oldest ends. */
  readonly refuse: boolean;
  /** The maximum number of sessions that may have ended recently. The server keeps a tombstone for each. */
  readonly maxEnded?: number | undefined;
  /** Creates the error for a full list, which names the option that limits it. */
  readonly full: () => ValiseError;
  /** The session that must not end: the one that the new session is forked from. */
  readonly spare?: string | undefined;
}

/** Options that all lists of one store share. */
export interface ShelfOptions {
  readonly store: Store;
  /** How long a list is kept after its last change, in seconds. */
  readonly ttl: number;
  /** How long a tombstone is kept, in seconds. */
  readonly tombstone: number;
  /** When each list was last found full of living sessions, by name. */
  readonly full: Recent<number>;
}

/** How often a full list is checked at most, in milliseconds, since each check reads every session in it. */
const LOOK = 1000;
/** The number of time steps in which tombstones are counted. */
const STEPS = 8;

const LISTS = recordsOf('session list');

/** A list in a single entry of the store, so that counting its places and taking one is atomic. */
export class Shelf {
  readonly #options: ShelfOptions;
  readonly #records: Collection<Members>;
  readonly #key: string;

  constructor(name: string, options: ShelfOptions) {
    this.#key = name;
    this.#options = options;
    this.#records = collection(options.store, 'shelf/', LISTS, { unlisted: true });
  }

  /** Takes a place. Returns the ids that must end for it. Throws if the list is full and none may end. */
  async add(
    id: string,
    created: number,
    { max, refuse, maxEnded = Number.POSITIVE_INFINITY, full, spare }: Cap,
    lives: (id: string) => Promise<boolean>,
  ): Promise<readonly string[]> {
    let crowded: readonly Place[] = [];
    await this.#change(async ({ places, ended }) => {
      const now = clock.now();
      if (ended.reduce((sum, [, count]) => sum + count, 0) >= maxEnded) throw tooMany('sessions.maxEnded');
      let living = places.filter(([each]) => each !== id);
      if (living.length >= max && !(refuse && this.#wasFull(now))) {
        const kept = await Promise.all(living.map(([each]) => lives(each)));
        living = living.filter((_, index) => kept[index]);
        if (living.length >= max) this.#options.full.set(this.#key, now);
      }
      const over = Math.max(0, living.length + 1 - max);
      crowded = refuse ? [] : living.filter(([each]) => each !== spare).slice(0, over);
      if (crowded.length < over) throw full();
      // Times are unique within a list, so that a page can end at one.
      const at = Math.max(created, (living.at(-1)?.[1] ?? 0) + 1);
      return {
        places: [...living.filter((place) => !crowded.includes(place)), [id, at]],
        ended: this.#with(ended, crowded.length),
      };
    });
    return crowded.map(([each]) => each);
  }

  /** Releases a place. `ended`: a tombstone is kept for the session. */
  async remove(id: string, { ended: isEnded }: { readonly ended: boolean }): Promise<void> {
    await this.#change(async ({ places, ended }) => {
      if (!places.some(([each]) => each === id)) return undefined;
      return {
        places: places.filter(([each]) => each !== id),
        ended: this.#with(ended, isEnded ? 1 : 0),
      };
    });
  }

  /** Returns a page of ids, oldest first. `after` is the cursor that the previous page returned. */
  async page(
    after: string | undefined,
    size: number,
  ): Promise<{ readonly ids: readonly string[]; readonly next?: string }> {
    const places = listIn<Place>((await this.#records.get(this.#key))?.value, 'places');
    const last = after === undefined ? 0 : readCursor(after);
    const rest = places.filter(([, at]) => at > last);
    const page = rest.slice(0, size);
    const ids = page.map(([id]) => id);
    return rest.length > size ? { ids, next: cursorOf(page[size - 1]?.[1] ?? 0) } : { ids };
  }

  async #change(step: (places: Places) => Promise<Places | undefined>): Promise<void> {
    const { ttl, tombstone } = this.#options;
    await this.#records.update(
      this.#key,
      async (found) => {
        const now = clock.now();
        const ended = listIn<Ended>(found?.value, 'ended').filter(([until]) => until > now);
        const next = await step({ places: listIn<Place>(found?.value, 'places'), ended });
        if (!next) return undefined;
        if (next.places.length === 0 && next.ended.length === 0) return null;
        return next.ended.length > 0 ? { ...next } : { places: next.places };
      },
      // A list without places only counts ended sessions.
      { ttl: (next) => (listIn(next, 'places').length > 0 ? ttl : Math.max(1, tombstone * 1.25)) },
    );
  }

  #wasFull(now: number): boolean {
    return now - (this.#options.full.get(this.#key) ?? 0) < LOOK;
  }

  #with(ended: readonly Ended[], count: number): readonly Ended[] {
    if (count === 0) return ended;
    const length = this.#options.tombstone * 1000;
    const step = Math.max(1, Math.floor(length / STEPS));
    const until = Math.ceil((clock.now() + length) / step) * step;
    const same = ended.find(([each]) => each === until)?.[1] ?? 0;
    return [...ended.filter(([each]) => each !== until), [until, same + count]];
  }
}

/** Reads a cursor. Throws if this server did not issue it. */
function readCursor(cursor: string): number {
  if (/^at-[0-9a-z]{1,11}$/.test(cursor)) return Number.parseInt(cursor.slice(3), 36);
  throw new CursorError();
}

/** Thrown for a cursor that this server did not issue. */
export class CursorError extends ValiseError {
  constructor() {
    super('invalid-argument', 'The cursor of a list of sessions is not one that this server issued.', {
      next: 'Start the list over.',
    });
  }
}

function cursorOf(at: number): string {
  return `at-${at.toString(36)}`;
}

/** Returns the error for session state that exceeds a limit. */
export function tooMuch(limit: string): ValiseError {
  return new ValiseError('limit-reached', `The server keeps too much state of sessions already (${limit}).`, {
    next: 'Try again later; or, as the author, keep less in a session.',
  });
}

/** Returns the error for a client that has reached a limit of sessions. */
export function tooMany(limit: string): ValiseError {
  return new CallerLimitError(`There are too many sessions already (${limit}).`, {
    next: 'Delete one that is no longer needed, or try again later.',
  });
}

/**
 * Returns the list that an entry holds under a name, or an empty one if there is no entry.
 *
 * It skips items that no version has written.
 */
export function listIn<Item>(value: unknown, name: string): readonly Item[] {
  const list = isObject(value) ? value[name] : undefined;
  return Array.isArray(list) ? (list.filter(isItem) as readonly Item[]) : [];
}

/** Whether an item is a name, or a name or time in a pair with a number. */
function isItem(item: unknown): boolean {
  if (!Array.isArray(item)) return typeof item === 'string';
  return /^(string|number)$/.test(typeof item[0]) && Number.isFinite(item[1]);
}
