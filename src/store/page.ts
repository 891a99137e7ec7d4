import { toLimit } from './check.ts';
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

/** Yields every key of a store with this prefix, page by page. */
export async function* keysOf(store: Store, prefix = ''): AsyncGenerator<string> {
  for await (const { keys } of pages((options) => store.list(prefix, options))) yield* keys;
}

type Listable = Pick<Store, 'get' | 'list' | 'entries'>;

/** Yields every entry with this prefix that exists when its page is read, page by page. */
export async function* entryPages(store: Listable, prefix: string): AsyncGenerator<EntryPage['entries']> {
  for await (const { entries } of pages((options) => entryPage(store, prefix, options))) yield entries;
}

async function entryPage(store: Listable, prefix: string, options: ListOptions): Promise<EntryPage> {
  if (store.entries) return store.entries(prefix, options);
  const { keys, ...rest } = await store.list(prefix, options);
  const found = await Promise.all(keys.map((key) => store.get(key)));
  const entries = keys.flatMap((key, at) => {
    const entry = found[at];
    return entry ? [[key, entry] as const] : [];
  });
  return { entries, ...rest };
}

async function* pages<Page extends { readonly cursor?: string }>(
  read: (options: ListOptions) => Promise<Page>,
): AsyncGenerator<Page> {
  let cursor: string | undefined;
  do {
    const page = await read(cursor === undefined ? {} : { cursor });
    yield page;
    cursor = page.cursor;
  } while (cursor !== undefined);
}
