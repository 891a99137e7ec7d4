import { toLimit } from './check.ts';
import type { EntryPage, KeyPage, ListOptions, Store } from './types.ts';

/** A page out of all keys in order; the cursor is the last key of the page before. */
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

/** Where the first key after `bound` is (or at `bound` itself, unless `strictly`). */
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

/** Every key of a store with this prefix, page after page. */
export async function* keysOf(store: Store, prefix = ''): AsyncGenerator<string> {
  for await (const { keys } of pages((options) => store.list(prefix, options))) yield* keys;
}

type Listable = Pick<Store, 'get' | 'list' | 'entries'>;

/** Every entry with this prefix that is there when its page is read, page after page. */
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
