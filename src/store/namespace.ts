import { declareSecrecy, secrecyOf } from './secrecy.ts';
import type { Store } from './types.ts';

/**
 * A part of a store: its keys all start with `prefix` in the store itself, and show up here without it.
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

/** The empty key and what is no text must be refused as always, and not turn into the prefix itself. */
function within(prefix: string, key: string): string {
  return typeof key === 'string' && key !== '' ? prefix + key : key;
}
