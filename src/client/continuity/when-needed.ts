import type { Store } from '../../store/types.ts';
import type { Secrets } from './secrets.ts';

/**
 * Returns a store for secrets that is created only when the first secret is stored. Until then, reads find nothing. Most
 * servers require no sign-in.
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
