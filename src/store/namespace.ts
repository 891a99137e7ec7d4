import { declareSecrecy, secrecyOf } from './driver.ts';
import type { KeyPage, ListOptions, Store } from './types.ts';

/**
 * Returns a view of a store in which all keys start with `prefix`. The view adds the prefix to keys and removes it from
 * results.
 *
 * @example
 * ```ts
 * const tenant = namespaced(store, 'tenant-7/');
 * await tenant.put('cart', []); // 'tenant-7/cart' in the store
 * ```
 */
export function namespaced(store: Store, prefix: string): Store {
  if (prefix === '') return store;
  const [entries, scan] = [store.entries?.bind(store), store.scan?.bind(store)];
  const without = (key: string) => key.slice(prefix.length);
  const keysWithout = (page: KeyPage): KeyPage => ({ ...page, keys: page.keys.map(without) });
  const part: Store = {
    get: (key) => store.get(within(prefix, key)),
    put: (key, value, options) => store.put(within(prefix, key), value, options),
    delete: (key, options) => store.delete(within(prefix, key), options),
    lease: (key, ttl) => store.lease(within(prefix, key), ttl),
    list: async (start, options) => keysWithout(await store.list(prefix + start, options)),
    ...(entries && {
      entries: async (start: string, options?: ListOptions) => {
        const page = await entries(prefix + start, options);
        return { ...page, entries: page.entries.map(([key, entry]) => [without(key), entry] as const) };
      },
    }),
    ...(scan && {
      scan: async (start: string, options?: ListOptions) => keysWithout(await scan(prefix + start, options)),
    }),
    close: () => store.close(),
  };
  return declareSecrecy(part, secrecyOf(store));
}

/**
 * Adds the prefix. An empty or non-string key is passed on unchanged, so that the store rejects it instead of using the
 * prefix itself.
 */
function within(prefix: string, key: string): string {
  return typeof key === 'string' && key !== '' ? prefix + key : key;
}
