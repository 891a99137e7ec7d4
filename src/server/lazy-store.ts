import { ValiseError } from '../core/errors.ts';
import { withTimeout } from '../store/kit/clock.ts';
import { checkDriver, checkStoreUrl, type OpenStoreOptions, openStore } from '../store/open.ts';
import type { Entry, Store } from '../store/types.ts';

/** How long a read waits for a store that was unavailable at the last read, in milliseconds. */
const MOMENT = 500;

/**
 * Creates a store that is opened on first use.
 *
 * If opening fails, the call fails and the next one tries again. A URL that can never be opened fails immediately. Drivers wait
 * some seconds for an unavailable server, which may only be restarting. After one such wait has failed, reads wait only a
 * moment until one succeeds, because many calls need the store for nothing else.
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
        new ValiseError('closed', 'The store of this Valise has been closed.', {
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
    async scan(prefix, options) {
      const store = await open();
      return (store.scan ?? store.list).call(store, prefix, options);
    },
    lease: async (key, ttl) => (await open()).lease(key, ttl),
    async close() {
      closed = true;
      await (await opened)?.close();
    },
  };
}
