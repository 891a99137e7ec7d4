import type { Store } from '../../store/types.ts';
import type { Secrets } from './secrets.ts';

/**
 * A place for secrets that need not be there as long as there are none: reading finds nothing, and only keeping one makes
 * it, or fails. Most servers ask for no sign-in.
 */
export function whenNeeded(secrets: Pick<Secrets, 'kept' | 'place'>): Store {
  return {
    get: async (key) => (await secrets.kept())?.get(key),
    list: async (prefix, options) => (await secrets.kept())?.list(prefix, options) ?? { keys: [] },
    delete: async (key, options) => (await secrets.kept())?.delete(key, options) ?? false,
    put: async (key, value, options) => (await secrets.place()).put(key, value, options),
    lease: async (key, ttl) => (await secrets.place()).lease(key, ttl),
    close: async () => {},
  };
}
