import { everyKey } from './page.ts';
import { PlainEntryError } from './sealed-error.ts';
import type { Store } from './types.ts';

/**
 * Yields the entries of a sealed store that were written without keys: by a process still running without them, or by a
 * stranger.
 */
export async function* plainEntries(store: Store): AsyncGenerator<{ key: string; version: string }> {
  for await (const key of everyKey(store)) {
    try {
      await store.get(key);
    } catch (error) {
      if (!(error instanceof PlainEntryError)) throw error;
      yield { key, version: error.version };
    }
  }
}

/**
 * Deletes the entries of a sealed store that were written without keys. They cannot be trusted and are never sealed.
 * Returns the deleted keys.
 *
 * @example
 * ```ts
 * const store = await openStore('sqlite:~/.valise/state.db', { keys: loadKeys() });
 * console.log(await dropPlain(store)); // as: valise keys seal --drop-plain
 * ```
 */
export async function dropPlain(store: Store): Promise<string[]> {
  const dropped: string[] = [];
  for await (const { key, version } of plainEntries(store))
    if (await store.delete(key, { ifVersion: version })) dropped.push(key);
  return dropped;
}
