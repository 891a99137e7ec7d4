import { toLimit } from './check.ts';
import type { Entry, KeyPage, Store } from './types.ts';

/** A page out of all keys in order; the cursor is the last key of the page before. */
export function pageOf(
  sorted: readonly string[],
  prefix: string,
  { cursor, limit }: { readonly cursor?: string; readonly limit?: number },
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
  for await (const keys of keyPages(store, prefix)) yield* keys;
}

/** Every entry with this prefix that is there when its page is read, page after page. */
export async function* entryPages(
  store: Store,
  prefix: string,
): AsyncGenerator<readonly (readonly [key: string, entry: Entry])[]> {
  for await (const keys of keyPages(store, prefix)) {
    const entries = await Promise.all(keys.map((key) => store.get(key)));
    yield keys.flatMap((key, at) => {
      const entry = entries[at];
      return entry ? [[key, entry] as const] : [];
    });
  }
}

async function* keyPages(store: Store, prefix: string): AsyncGenerator<readonly string[]> {
  let cursor: string | undefined;
  do {
    const page = await store.list(prefix, cursor === undefined ? {} : { cursor });
    yield page.keys;
    cursor = page.cursor;
  } while (cursor !== undefined);
}
