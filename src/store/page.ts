import { toLimit } from './driver.ts';
import type { EntryPage, KeyPage, ListOptions, Store } from './types.ts';

/** Returns a page of the sorted keys. The cursor is the last key of the previous page. */
export function pageOf(
  sorted: readonly string[],
  prefix: string,
  { cursor, limit }: ListOptions,
  lives: (key: string) => boolean,
): KeyPage {
  const size = toLimit(limit);
  const keys: string[] = [];
  let at =
    cursor !== undefined && cursor >= prefix
      ? firstAfter(sorted, cursor, true)
      : firstAfter(sorted, prefix, false);
  for (; at < sorted.length; at++) {
    const key = sorted[at] as string;
    if (!key.startsWith(prefix)) break;
    if (!lives(key)) continue;
    if (keys.length === size) return { keys, cursor: keys[size - 1] as string };
    keys.push(key);
  }
  return { keys };
}

/** Returns the index of the first key after `bound` (or at `bound`, unless `strictly`). */
function firstAfter(sorted: readonly string[], bound: string, strictly: boolean): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    const key = sorted[middle] as string;
    if (key < bound || (strictly && key === bound)) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Yields every key of a store that `list` finds under this prefix, page by page. */
export async function* keysOf(store: Pick<Store, 'list'>, prefix: string): AsyncGenerator<string> {
  for await (const { keys } of pages((options) => store.list(prefix, options))) yield* keys;
}

/** Yields every key of a store, including those of unlisted entries. Yields a key twice if the store does. */
export async function* everyKey(store: Pick<Store, 'list' | 'scan'>): AsyncGenerator<string> {
  for await (const { keys } of everyKeyPage(store)) yield* keys;
}

/** Whether a store has no entry at all, listed or not. */
export async function isEmpty(store: Pick<Store, 'list' | 'scan'>): Promise<boolean> {
  if ((await store.list('', { limit: 1 })).keys.length > 0) return false;
  if (!store.scan) return true;
  for await (const { keys } of everyKeyPage(store)) if (keys.length > 0) return false;
  return true;
}

function everyKeyPage(store: Pick<Store, 'list' | 'scan'>): AsyncGenerator<KeyPage> {
  return pages((options) => (store.scan ? store.scan('', options) : store.list('', options)));
}

type Listable = Pick<Store, 'get' | 'list' | 'entries'>;

/** Yields every entry that `list` finds under this prefix and that exists when its page is read, page by page. */
export async function* entryPages(store: Listable, prefix: string): AsyncGenerator<EntryPage['entries']> {
  for await (const { entries } of pages((options) => entryPage(store, prefix, options))) yield entries;
}

/** Yields every entry under a prefix, including unlisted ones. Yields an entry twice if the store does. */
export async function* entriesUnder(
  store: Listable & Pick<Store, 'scan'>,
  prefix: string,
): AsyncGenerator<EntryPage['entries'][number]> {
  if (!store.scan) for await (const entries of entryPages(store, prefix)) yield* entries;
  else
    for await (const { keys } of pages(
      (options) => store.scan?.(prefix, options) ?? store.list(prefix, options),
    ))
      yield* await entriesOf(store, keys);
}

/** Yields every entry of a store, including unlisted ones, page by page. */
export async function* everyEntryPage(
  store: Listable & Pick<Store, 'scan'>,
): AsyncGenerator<EntryPage['entries']> {
  if (!store.scan) yield* entryPages(store, '');
  else for await (const { keys } of everyKeyPage(store)) yield entriesOf(store, keys);
}

async function entryPage(store: Listable, prefix: string, options: ListOptions): Promise<EntryPage> {
  if (store.entries) return store.entries(prefix, options);
  const { keys, ...rest } = await store.list(prefix, options);
  return { entries: await entriesOf(store, keys), ...rest };
}

async function entriesOf(store: Pick<Store, 'get'>, keys: readonly string[]): Promise<EntryPage['entries']> {
  const found = await Promise.all(keys.map((key) => store.get(key)));
  return keys.flatMap((key, at) => {
    const entry = found[at];
    return entry ? [[key, entry] as const] : [];
  });
}

/** Yields every page that `read` returns. */
export async function* pages<Page extends { readonly cursor?: string }>(
  read: (options: ListOptions) => Promise<Page>,
): AsyncGenerator<Page> {
  let cursor: string | undefined;
  do {
    const page = await read(cursor === undefined ? {} : { cursor });
    yield page;
    cursor = page.cursor;
  } while (cursor !== undefined);
}

/** A batch of keys of one source, and where its next batch starts. */
interface Batch {
  readonly keys: readonly string[];
  readonly next: string | undefined;
}

/** The keys of one source that were read and not returned yet. `from` is undefined at its end. */
interface SourceCursor<Source> {
  readonly source: Source;
  from: string | undefined;
  keys: readonly Buffer[];
}

/** Merges sources of keys, each sorted by bytes, into one page. `read` may return fewer keys than `count`. */
export async function mergedPage<Source>(
  sources: readonly Source[],
  from: string,
  limit: number,
  read: (source: Source, from: string, count: number) => Promise<Batch>,
): Promise<KeyPage> {
  const cursors = sources.map((source): SourceCursor<Source> => ({ source, from, keys: [] }));
  // A source has its share of a page on average, and some a little more.
  const count = Math.ceil((1.3 * (limit + 1)) / sources.length) + 2;
  const fill = async (cursor: SourceCursor<Source>): Promise<void> => {
    while (cursor.from !== undefined && cursor.keys.length === 0) {
      const { keys, next } = await read(cursor.source, cursor.from, count);
      cursor.keys = keys.map((key) => Buffer.from(key));
      cursor.from = next;
    }
  };
  const keys: string[] = [];
  // One extra key shows whether there is another page.
  while (keys.length <= limit) {
    await Promise.all(cursors.map(fill));
    const next = takeSorted(cursors);
    if (next.length === 0) return { keys };
    keys.push(...next);
  }
  return { keys: keys.slice(0, limit), cursor: keys[limit - 1] as string };
}

/** Takes the keys that no later batch of any source can precede, in byte order. */
function takeSorted(cursors: readonly SourceCursor<unknown>[]): string[] {
  const ends = cursors
    .flatMap(({ from, keys }) => (from === undefined ? [] : keys.slice(-1)))
    .sort(Buffer.compare);
  const [bound] = ends;
  const taken: Buffer[] = [];
  for (const cursor of cursors) {
    const later = bound === undefined ? -1 : cursor.keys.findIndex((key) => Buffer.compare(key, bound) > 0);
    taken.push(...(later === -1 ? cursor.keys : cursor.keys.slice(0, later)));
    cursor.keys = later === -1 ? [] : cursor.keys.slice(later);
  }
  return taken.sort(Buffer.compare).map(String);
}
