import { ValiseError } from '../errors.ts';
import { checkStoreUrl, openStore } from '../store/open.ts';
import type { Store } from '../store/types.ts';

/**
 * A store that is opened when it is first used. Where opening fails, the call fails, and the next one tries again; a URL
 * that can never be opened fails at once.
 */
export function lazyStore(url: string): Store {
  checkStoreUrl(url);
  let opened: Promise<Store> | undefined;
  let closed = false;
  const open = (): Promise<Store> => {
    if (closed) {
      return Promise.reject(
        new ValiseError('store-closed', 'The store of this Valise has been closed.', {
          next: 'Close Valise last, when no request is under way.',
        }),
      );
    }
    opened ??= openStore(url).catch((error: unknown) => {
      opened = undefined;
      throw error;
    });
    return opened;
  };
  return {
    get: async (key) => (await open()).get(key),
    put: async (key, value, options) => (await open()).put(key, value, options),
    delete: async (key, options) => (await open()).delete(key, options),
    list: async (prefix, options) => (await open()).list(prefix, options),
    lease: async (key, ttl) => (await open()).lease(key, ttl),
    async close() {
      closed = true;
      await (await opened)?.close();
    },
  };
}
