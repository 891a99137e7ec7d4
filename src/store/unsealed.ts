import type { Json } from '../json.ts';
import { toText } from './check.ts';
import { sealedError } from './sealed-error.ts';
import { declareSecrecy, secrecyOf } from './secrecy.ts';
import type { Entry, Store } from './types.ts';

/**
 * The key of the mark that distinguishes a sealed store from a plain one, and the right keys from wrong ones, before
 * anything is overwritten.
 */
export const SEAL_MARK = 'valise:sealed';

/** How long writes proceed without checking again whether the store has been sealed, in milliseconds. */
const LOOK_EVERY = 1000;

const beneath = new WeakMap<Store, Store>();

/** Returns a store as its driver created it, for callers that have keys. */
export function unguarded(store: Store): Store {
  return beneath.get(store) ?? store;
}

/** Throws if the store was written with keys, because without them its values are unreadable. */
export async function refuseSealed(store: Store, name: string): Promise<Store> {
  if (await store.get(SEAL_MARK)) {
    await store.close();
    throw sealedError(name);
  }
  return untilSealed(store, name);
}

function looksSealed({ value }: Entry): boolean {
  return typeof value === 'string' && value.startsWith('v1.');
}

/**
 * Wraps a store that was opened without keys. Once somebody seals the store, calls fail as opening it would. A value
 * that looks sealed triggers a check and, before a write, so does a second since the last check.
 */
export function untilSealed(store: Store, name: string): Store {
  let lookedAt = performance.now();
  /** A running check, which all other calls wait for, so that they stay in order. Permanent once the store was found sealed. */
  let looking: Promise<void> | undefined;
  const look = (): Promise<void> => {
    looking = store.get(SEAL_MARK).then(
      (mark) => {
        if (mark) throw sealedError(name);
        lookedAt = performance.now();
        looking = undefined;
      },
      (error: unknown) => {
        looking = undefined;
        throw error;
      },
    );
    return looking;
  };
  const beforeWrite = (): Promise<void> | undefined =>
    looking ?? (performance.now() - lookedAt < LOOK_EVERY ? undefined : look());
  const entries = store.entries?.bind(store);
  const scan = store.scan?.bind(store);
  const guarded: Store = {
    async get(key) {
      if (looking) await looking;
      const entry = await store.get(key);
      if (entry && looksSealed(entry)) await look();
      return entry;
    },
    async put(key, value, options) {
      const looked = beforeWrite();
      if (!looked) return store.put(key, value, options);
      // The value is copied first, because the caller may change it while this waits.
      const now = JSON.parse(toText(key, value)) as Json;
      await looked;
      return store.put(key, now, options);
    },
    async delete(key, options) {
      await beforeWrite();
      return store.delete(key, options);
    },
    async list(prefix, options) {
      if (looking) await looking;
      return store.list(prefix, options);
    },
    ...(entries && {
      async entries(prefix, options) {
        if (looking) await looking;
        const page = await entries(prefix, options);
        if (page.entries.some(([, entry]) => looksSealed(entry))) await look();
        return page;
      },
    }),
    ...(scan && {
      async scan(prefix, options) {
        if (looking) await looking;
        return scan(prefix, options);
      },
    }),
    async lease(key, ttl) {
      if (looking) await looking;
      return store.lease(key, ttl);
    },
    close: () => store.close(),
  };
  beneath.set(guarded, store);
  return declareSecrecy(guarded, secrecyOf(store));
}
