import { ValiseError } from '../core/errors.ts';
import type { Json } from '../core/json.ts';
import { declareSecrecy, secrecyOf, toText } from './driver.ts';
import { everyKey } from './page.ts';
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
    get(key) {
      const check = (entry: Entry | undefined) =>
        entry && looksSealed(entry) ? look().then(() => entry) : entry;
      return (looking ? looking.then(() => store.get(key)) : store.get(key)).then(check);
    },
    put(key, value, options) {
      const looked = beforeWrite();
      if (!looked) return store.put(key, value, options);
      // The value is copied first, because the caller may change it while this waits.
      const now = JSON.parse(toText(key, value)) as Json;
      return looked.then(() => store.put(key, now, options));
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

/**
 * Yields the entries of a sealed store that were written without keys: by a process still running without them, or by a
 * stranger.
 */
export async function* plainEntries(store: Store): AsyncGenerator<{ key: string; version: string }> {
  for await (const key of everyKey(store)) {
    try {
      await store.get(key);
    } catch (error) {
      if (!(error instanceof PlainEntryError)) throw error;
      yield { key, version: error.version };
    }
  }
}

/**
 * Deletes the entries of a sealed store that were written without keys. They cannot be trusted and are never sealed.
 * Returns the deleted keys.
 *
 * @example
 * ```ts
 * const store = await openStore('sqlite:~/.valise/state.db', { keys: loadKeys() });
 * console.log(await dropPlain(store)); // as: valise keys seal --drop-plain
 * ```
 */
export async function dropPlain(store: Store): Promise<string[]> {
  const dropped: string[] = [];
  for await (const { key, version } of plainEntries(store))
    if (await store.delete(key, { ifVersion: version })) dropped.push(key);
  return dropped;
}

/** Returns the error for a store that was written with keys and opened without. */
export function sealedError(name: string): ValiseError {
  return new ValiseError('store-wrong-key', `${name} is sealed, and no keys were given.`, {
    next: 'Open it with the keys it was written with: the option keys; for a client also VALISE_CLIENT_KEYS, on its command line also --key-file.',
  });
}

/** Returns the error for a store that was written without keys and opened with them. */
export function plainError(url: string): ValiseError {
  return new ValiseError('store-wrong-key', 'The store was written without keys, and is not sealed yet.', {
    next: `Seal what it holds, once: valise keys seal --store ${url} (in code: sealInPlace). If it was sealed before, do not: somebody has changed it.`,
  });
}

/** Thrown for an entry of a sealed store that was written without keys. */
export class PlainEntryError extends ValiseError {
  /** The version of the entry, for deleting or overwriting it. */
  readonly version: string;

  constructor(key: string, version: string, url: string) {
    super(
      'store-wrong-key',
      `The entry ${JSON.stringify(key)} was written without keys, although the store is sealed.`,
      {
        next: `Somebody else has put it there, or a process that was left running without keys: end it, then restore the entry from a copy, or drop what is not sealed: valise keys seal --drop-plain --store ${url}`,
      },
    );
    this.version = version;
  }
}

/** Returns the error for a seal mark that was written without keys. */
export function plainMarkError(): ValiseError {
  return new ValiseError('store-wrong-key', 'The store was written without keys, although it is sealed.', {
    next: 'Somebody has changed it: restore it from a copy.',
  });
}

/** Returns the error for content that was sealed with a key that is not on the keyring. */
export function wrongKeyError(what: string, kid: string, cause: unknown): ValiseError {
  return new ValiseError('store-wrong-key', `${what} was sealed with another key (its id is ${kid}).`, {
    next: 'Add that key to the keyring, after the one that seals now. Nothing has been changed.',
    cause,
  });
}

/** Returns the error for a store in which one part is sealed separately. */
export function partError(prefix: string): ValiseError {
  return new ValiseError(
    'store-wrong-key',
    `What starts with ${JSON.stringify(prefix)} is sealed by itself.`,
    {
      next: 'Seal the other parts by themselves too, each with its prefix. Nothing has been changed.',
    },
  );
}
