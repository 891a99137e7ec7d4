import { isObject, type Json } from '../json.ts';
import { keysOf } from '../store/page.ts';
import type { Store } from '../store/types.ts';

/** `Driver` of unstorage. */
export interface UnstorageDriver {
  readonly name: string;
  getInstance(): Store;
  hasItem(key: string): Promise<boolean>;
  getItem(key: string): Promise<Json>;
  setItem(key: string, value: string, options?: object): Promise<void>;
  removeItem(key: string): Promise<void>;
  getKeys(base?: string): Promise<string[]>;
  clear(base?: string): Promise<void>;
}

const PREFIX = 'adapters/unstorage/';

/**
 * Makes a store a driver of unstorage, and so of Nitro and Nuxt. Lifetimes are in seconds, as in unstorage's own
 * drivers: `setItem(key, value, { ttl: 60 })`. The store stays open when the storage is disposed.
 *
 * @example
 * ```ts
 * const storage = createStorage({ driver: unstorageDriver(await openStore('sqlite:state.db')) });
 * ```
 */
export function unstorageDriver(store: Store): UnstorageDriver {
  const getKeys = async (base = ''): Promise<string[]> => {
    const keys: string[] = [];
    for await (const key of keysOf(store, PREFIX + base)) keys.push(key.slice(PREFIX.length));
    return keys;
  };
  return {
    name: 'valise',
    getInstance: () => store,
    hasItem: async (key) => (await store.get(PREFIX + key)) !== undefined,
    getItem: async (key) => (await store.get(PREFIX + key))?.value ?? null,
    async setItem(key, value, options) {
      const ttl = isObject(options) && typeof options['ttl'] === 'number' ? options['ttl'] : undefined;
      await store.put(PREFIX + key, value, ttl === undefined ? {} : { ttl });
    },
    async removeItem(key) {
      await store.delete(PREFIX + key);
    },
    getKeys,
    async clear(base) {
      for (const key of await getKeys(base)) await store.delete(PREFIX + key);
    },
  };
}
