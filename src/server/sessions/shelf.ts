import { ValiseError } from '../../errors.ts';
import type { Json } from '../../json.ts';
import type { Store } from '../../store/types.ts';
import { changeEntry, listIn } from './change.ts';

/** A session in a list: its id, and a time that grows along the list. */
type Place = readonly [id: string, at: number];

/** How many sessions a list may hold, and what happens to one more. */
export interface Cap {
  readonly max: number;
  /** Refuse it; otherwise the oldest goes. */
  readonly refuse: boolean;
  /** Look first whether some are over already. Too costly where one session after another finds the list full. */
  readonly prune: boolean;
  /** The one that must not go: the session that the new one is forked from. */
  readonly spare?: string | undefined;
}

/** The list of one owner's sessions, in one entry of the store so that a cap on their number can be kept. */
export class Shelf {
  readonly #store: Store;
  readonly #key: string;
  readonly #ttl: number;

  /** `ttl` is the longest life of a session, in seconds. */
  constructor(store: Store, name: string, ttl: number) {
    this.#store = store;
    this.#key = `shelf/${name}`;
    this.#ttl = ttl;
  }

  /** Adds a session. The ids that had to go for it come back; throws where it is full and nobody goes. */
  async add(
    id: string,
    created: number,
    { max, refuse, prune, spare }: Cap,
    lives: (id: string) => Promise<boolean>,
  ): Promise<readonly string[]> {
    let crowded: readonly Place[] = [];
    await this.#change(async (places) => {
      let living = places;
      if (prune && places.length >= max) {
        const kept = await Promise.all(places.map(([each]) => lives(each)));
        living = places.filter((_, index) => kept[index]);
      }
      const over = Math.max(0, living.length + 1 - max);
      crowded = refuse ? [] : living.filter(([each]) => each !== spare).slice(0, over);
      if (crowded.length < over) throw tooMany(max);
      // No two of a list have the same time, so that a page can end at one.
      const at = Math.max(created, (living.at(-1)?.[1] ?? 0) + 1);
      return [...living.filter((place) => !crowded.includes(place)), [id, at]];
    });
    return crowded.map(([each]) => each);
  }

  async remove(id: string): Promise<void> {
    await this.#change(async (places) =>
      places.some(([each]) => each === id) ? places.filter(([each]) => each !== id) : undefined,
    );
  }

  /** A page of ids, oldest first; `after` is the place that a page before ended with. */
  async page(
    after: string | undefined,
    size: number,
  ): Promise<{ readonly ids: readonly string[]; readonly next?: string }> {
    const places = listIn<Place>((await this.#store.get(this.#key))?.value, 'places');
    const last = after === undefined ? 0 : readCursor(after);
    const rest = places.filter(([, at]) => at > last);
    const page = rest.slice(0, size);
    const ids = page.map(([id]) => id);
    return rest.length > size ? { ids, next: cursorOf(page[size - 1]?.[1] ?? 0) } : { ids };
  }

  #change(step: (places: readonly Place[]) => Promise<readonly Place[] | undefined>): Promise<void> {
    return changeEntry(this.#store, this.#key, this.#ttl, async (value) => {
      const places = await step(listIn<Place>(value, 'places'));
      return places && ({ places } as unknown as Json);
    });
  }
}

/** Reads a cursor; throws where it is none of ours. */
function readCursor(cursor: string): number {
  if (/^at-[0-9a-z]{1,11}$/.test(cursor)) return Number.parseInt(cursor.slice(3), 36);
  throw new ValiseError('bad-cursor', 'The cursor of a list of sessions is not one that this server gave.', {
    next: 'Start the list over.',
  });
}

function cursorOf(at: number): string {
  return `at-${at.toString(36)}`;
}

function tooMany(max: number): ValiseError {
  return new ValiseError('too-many-sessions', `There are ${max} sessions already, and no more are allowed.`, {
    next: 'Delete one that is no longer needed.',
  });
}
