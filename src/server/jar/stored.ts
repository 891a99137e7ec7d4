import { ValiseError } from '../../errors.ts';
import type { Json } from '../../json.ts';
import { collection, type Found, type Members, recordsOf } from '../../store/kit/collection.ts';
import { isContended, TRIES } from '../../store/kit/update.ts';
import type { Store } from '../../store/types.ts';
import { MAX_AGE, methodPath, type Scope, scopeCovers } from '../../wire/index.ts';
import type { Exchange } from '../exchange.ts';
import type { Key, Keys } from './key.ts';
import type { Changes, Source } from './source.ts';
import { copyOf } from './value.ts';

/** One value in the store: name, value, and when it ends (milliseconds since 1970), or null. */
type Row = readonly [name: string, value: Json, until: number | null];

/** The state of one owner in one scope, as read from the store. */
export interface Shelf {
  readonly key: string;
  readonly rows: ReadonlyMap<string, Row>;
  readonly found: Found<Members> | undefined;
  /** The end that no use postpones, in milliseconds since 1970. */
  readonly until: number | undefined;
}

/** Counts the bytes that one entry takes in the store. */
export interface ShelfCount {
  /** Counts the bytes. Throws if they exceed the limit. Returns a function that undoes the count. */
  take(bytes: number): () => void;
  release(): void;
}

/** The maximum size for one owner and scope. Clients that carry no state could otherwise fill the store. */
const MAX_SHELF = 1024 * 1024;

const RECORDS = recordsOf('state record');

const recordsIn = (store: Store) => collection(store, '', RECORDS, { unlisted: true });

/** Loads the state under a key. */
export async function loadShelf(store: Store, key: string): Promise<Shelf> {
  return shelfOf(key, await recordsIn(store).get(key));
}

/** Returns the state under a key that nothing has been stored under. */
export function emptyShelf(key: string): Shelf {
  return shelfOf(key, undefined);
}

function shelfOf(key: string, found: Found<Members> | undefined): Shelf {
  const rows = new Map<string, Row>();
  const now = Date.now();
  const { rows: stored, until: end } = found?.value ?? {};
  const until = typeof end === 'number' && end > now ? end : undefined;
  if (Array.isArray(stored) && (end === undefined || until !== undefined)) {
    for (const row of stored as readonly Row[]) {
      if (row[2] === null || row[2] > now) rows.set(row[0], row);
    }
  }
  return { key, rows, found, until };
}

/**
 * Returns stored state as a source. A key's method scope applies here too, so that a handler sees the same with every client.
 */
export function storedSource({ rows }: Shelf, { request }: Exchange): Source {
  const path = methodPath(request.method, request.params);
  return {
    names: () => rows.keys(),
    checkWritable: () => undefined,
    read(name, { attributes: { methodScope } }: Key) {
      const row = rows.get(name);
      // Hidden values are still written back when another one has changed.
      return row && (methodScope === undefined || scopeCovers(methodScope, path))
        ? copyOf(row[1])
        : undefined;
    },
  };
}

/**
 * Writes changes back.
 *
 * If another request has written in between, the changes are applied to what it wrote. Names do not affect each other, and of
 * two values for one name the later one stays, as in a client's jar.
 */
export async function saveShelf(
  store: Store,
  loaded: Shelf,
  changes: Changes,
  {
    scope,
    keys,
    ttl,
    count,
    longest,
  }: {
    readonly scope: Scope;
    readonly keys: Keys;
    readonly ttl: number;
    readonly count: ShelfCount | undefined;
    /** After how many seconds all of it ends, however much it is used. */
    readonly longest?: number | undefined;
  },
): Promise<void> {
  const { found } = loaded;
  let undo: (() => void) | undefined;
  try {
    const version = await recordsIn(store).update(
      loaded.key,
      (now) => {
        const current = now === found ? loaded : shelfOf(loaded.key, now);
        const rows = changed(current, changes, scope, keys);
        undo?.();
        undo = undefined;
        if (rows.length === 0) return null;
        undo = count?.take(checkedSize({ rows }));
        if (longest === undefined) return { rows };
        return { rows, until: current.until ?? Date.now() + longest * 1000 };
      },
      { ttl, seen: { found } },
    );
    if (version === null) count?.release();
  } catch (error) {
    undo?.();
    throw isContended(error) ? notSaved(error) : error;
  }
}

function notSaved(cause: ValiseError): ValiseError {
  return new ValiseError(
    'not-saved',
    `State could not be saved: others wrote it ${TRIES} times in between.`,
    {
      next: 'Try again; where many requests of one session run at once, keep their state under different owners.',
      outcome: 'not-done',
      cause,
    },
  );
}

function changed({ rows }: Shelf, changes: Changes, scope: Scope, keys: Keys): readonly Row[] {
  const next = new Map(rows);
  for (const [name, change] of changes) {
    if (change) next.set(name, [name, change.json, untilOf(keys.of(scope, name), scope)]);
    else next.delete(name);
  }
  return [...next.values()];
}

/** Returns when a value ends. Server scope ends after 400 days, as in a client; session scope ends with its session. */
function untilOf({ attributes: { maxAge } }: Key, scope: Scope): number | null {
  const age = maxAge ?? (scope === 'server' ? MAX_AGE : undefined);
  return age === undefined ? null : Date.now() + age * 1000;
}

/** Returns the size of a record in bytes. Throws if it is too large. */
function checkedSize(record: Members): number {
  const bytes = Buffer.byteLength(JSON.stringify(record));
  if (bytes <= MAX_SHELF) return bytes;
  throw new ValiseError('too-large', `All state of one client together would take over ${MAX_SHELF} bytes.`, {
    next: 'Delete what is no longer needed, or keep it in a database of your own.',
  });
}
