import { setTimeout as sleep } from 'node:timers/promises';
import { ValiseError } from '../../errors.ts';
import { isObject, type Json } from '../../json.ts';
import type { Entry, Store } from '../../store/types.ts';
import { MAX_AGE, methodPath, type Scope, scopeCovers } from '../../wire/index.ts';
import type { Exchange } from '../exchange.ts';
import type { Key, Keys } from './key.ts';
import type { Changes, Source } from './source.ts';
import { copyOf } from './value.ts';

/** One piece of state in the store: name, value, and when it ends (milliseconds since 1970), or null. */
type Row = readonly [name: string, value: Json, until: number | null];

/** The state of one owner in one scope, as the store had it. */
export interface Shelf {
  readonly key: string;
  readonly rows: ReadonlyMap<string, Row>;
  readonly version: string | undefined;
  readonly expiresAt: number | undefined;
}

/** Counts what one shelf takes in the store. */
export interface ShelfCount {
  /** Throws if it is too much. Returns what undoes it. */
  take(bytes: number): () => void;
  release(): void;
}

/** More than this for one owner and scope is refused: a client that carries none could otherwise fill the store. */
const MAX_SHELF = 1024 * 1024;
const TRIES = 100;

/** Loads what the store has under a key. */
export async function loadShelf(store: Store, key: string): Promise<Shelf> {
  return shelfOf(key, await store.get(key));
}

function shelfOf(key: string, entry: Entry | undefined): Shelf {
  const rows = new Map<string, Row>();
  const now = Date.now();
  if (entry && isObject(entry.value) && Array.isArray(entry.value['rows'])) {
    for (const row of entry.value['rows'] as readonly Row[]) {
      if (row[2] === null || row[2] > now) rows.set(row[0], row);
    }
  }
  return { key, rows, version: entry?.version, expiresAt: entry?.expiresAt };
}

/** A shelf as a source. A key's method scope holds here too, so that a handler sees the same with every client. */
export function storedSource({ rows }: Shelf, { request }: Exchange): Source {
  const path = methodPath(request.method, request.params);
  return {
    names: () => rows.keys(),
    checkWritable: () => undefined,
    read(name, { attributes: { methodScope } }: Key) {
      const row = rows.get(name);
      // All rows are written back where one has changed.
      return row && (methodScope === undefined || scopeCovers(methodScope, path))
        ? copyOf(row[1])
        : undefined;
    },
  };
}

/**
 * Writes changes back. Where another request has written in between, the changes are applied to what it wrote: names
 * do not disturb each other, and of two values for one name the later one stays, as in a client's jar.
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
  }: {
    readonly scope: Scope;
    readonly keys: Keys;
    readonly ttl: number;
    readonly count: ShelfCount | undefined;
  },
): Promise<void> {
  let shelf = loaded;
  for (let tries = 0; tries < TRIES; tries++) {
    const rows = changed(shelf, changes, scope, keys);
    if (await replace(store, shelf, rows, ttl, count)) return;
    // Whoever came in between has finished; a crowd is spread out a little.
    if (tries > 2) await sleep(Math.random() * Math.min(tries, 20));
    shelf = await loadShelf(store, shelf.key);
  }
  throw new ValiseError(
    'state-not-saved',
    `State could not be saved: others wrote it ${TRIES} times in between.`,
    {
      next: 'Try again; where many requests of one session run at once, keep their state under different owners.',
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

/** Server scope ends by itself after 400 days, as it does in a client; session scope with its session. */
function untilOf({ attributes: { maxAge } }: Key, scope: Scope): number | null {
  const age = maxAge ?? (scope === 'server' ? MAX_AGE : undefined);
  return age === undefined ? null : Date.now() + age * 1000;
}

async function replace(
  store: Store,
  shelf: Shelf,
  rows: readonly Row[],
  ttl: number,
  count: ShelfCount | undefined,
): Promise<boolean> {
  const { key, version } = shelf;
  if (rows.length === 0) {
    const isGone =
      version === undefined ||
      (await store.delete(key, { ifVersion: version })) ||
      // Gone already, by its time or by another's hand, is as good.
      (await store.get(key)) === undefined;
    if (isGone) count?.release();
    return isGone;
  }
  const value = { rows } as unknown as Json;
  const bytes = Buffer.byteLength(JSON.stringify(value));
  if (bytes > MAX_SHELF) {
    throw new ValiseError(
      'state-too-large',
      `All state of one client together would take over ${MAX_SHELF} bytes.`,
      {
        next: 'Delete what is no longer needed, or keep it in a database of your own.',
      },
    );
  }
  const condition = version === undefined ? { ifAbsent: true } : { ifVersion: version };
  const undo = count?.take(bytes);
  const isWritten = (await store.put(key, value, { ttl, ...condition })) !== undefined;
  if (!isWritten) undo?.();
  return isWritten;
}
