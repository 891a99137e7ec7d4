import { declareSecrecy, secrecyOf } from './secrecy.ts';
import type { Store } from './types.ts';

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
  const part: Store = {
    get: (key) => store.get(within(prefix, key)),
    put: (key, value, options) => store.put(within(prefix, key), value, options),
    delete: (key, options) => store.delete(within(prefix, key), options),
    lease: (key, ttl) => store.lease(within(prefix, key), ttl),
    list: async (start, { cursor, limit } = {}) => {
      const page = await store.list(prefix + start, {
        ...(cursor !== undefined && { cursor }),
        ...(limit !== undefined && { limit }),
      });
      return { ...page, keys: page.keys.map((key) => key.slice(prefix.length)) };
    },
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
