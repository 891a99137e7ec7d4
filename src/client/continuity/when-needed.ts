import { ValiseError } from '../../errors.ts';
import type { Store } from '../../store/types.ts';

/**
 * A place for secrets that need not be there as long as there are none: reading finds nothing, and only keeping one fails.
 * Most servers ask for no sign-in.
 */
export function whenNeeded(find: () => Promise<Store>): Store {
  const ifThere = async <T>(use: (store: Store) => Promise<T>, otherwise: T): Promise<T> => {
    let store: Store;
    try {
      store = await find();
    } catch (error) {
      if (error instanceof ValiseError && error.code === 'no-place-for-secrets') return otherwise;
      throw error;
    }
    return use(store);
  };
  return {
    get: (key) => ifThere((store) => store.get(key), undefined),
    list: (prefix, options) => ifThere((store) => store.list(prefix, options), { keys: [] }),
    delete: (key, options) => ifThere((store) => store.delete(key, options), false),
    put: async (key, value, options) => (await find()).put(key, value, options),
    lease: async (key, ttl) => (await find()).lease(key, ttl),
    close: async () => {},
  };
}
