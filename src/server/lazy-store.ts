import { ValiseError } from '../errors.ts';
import { withTimeout } from '../store/kit/timeout.ts';
import { checkDriver, checkStoreUrl, type OpenStoreOptions, openStore } from '../store/open.ts';
import type { Entry, Store } from '../store/types.ts';

/** How long a read waits for a store that was away when it was last read, in milliseconds. */
const MOMENT = 500;

/**
 * A store that is opened when it is first used. Where opening fails, the call fails, and the next one tries again; a URL
 * that can never be opened fails at once. Drivers wait some seconds for a server that is away, which may only be starting
 * anew; once one has waited in vain, reads wait a moment, until one succeeds: many calls need the store for nothing else.
 */
export function lazyStore(url: string, options: Pick<OpenStoreOptions, 'durability'> = {}): Store {
  checkStoreUrl(url);
  checkDriver(url);
  let opened: Promise<Store> | undefined;
  let closed = false;
  let away: ValiseError | undefined;
  const open = (): Promise<Store> => {
    if (closed) {
      return Promise.reject(
        new ValiseError('store-closed', 'The store of this Valise has been closed.', {
          next: 'Close Valise last, when no request is under way.',
        }),
      );
    }
    opened ??= openStore(url, options).catch((error: unknown) => {
      opened = undefined;
      throw error;
    });
    return opened;
  };
  const read = async (key: string): Promise<Entry | undefined> => {
    try {
      const entry = await (await open()).get(key);
      away = undefined;
      return entry;
    } catch (error) {
      away = error instanceof ValiseError && error.code === 'store-unavailable' ? error : undefined;
      throw error;
    }
  };
  return {
    get(key) {
      const last = away;
      if (!last) return read(key);
      return withTimeout(read(key), MOMENT, () => {
        throw last;
      });
    },
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
