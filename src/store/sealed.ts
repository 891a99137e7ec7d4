import { ValiseError } from '../core/errors.ts';
import {
  createSealer,
  inspectToken,
  type Keyring,
  parseKeys,
  SealError,
  type Sealer,
} from '../seal/index.ts';
import { checkKey, declareSecrecy, toMilliseconds } from './driver.ts';
import { everyKey, isEmpty } from './page.ts';
import {
  PlainEntryError,
  partError,
  plainError,
  plainMarkError,
  SEAL_MARK,
  unguarded,
  wrongKeyError,
} from './plain.ts';
import type { Entry, KeyPage, Lease, ListOptions, PutOptions, Store } from './types.ts';

// The entry's lifetime is the only one that counts. A clock that was wrong for a while must not make a value unreadable.
const FOREVER = 3e9;
/** The purpose of entries without an expiry. */
const PURPOSE = 'store';
/** The purpose of entries with an expiry, which is sealed with the value. */
const PURPOSE_UNTIL = 'until of a store';
/** The maximum difference between the clocks of processes that share a store, in milliseconds. */
const SKEW = 300_000;
/** The value of the mark while plain entries are being sealed. Nobody can open the store until all of them are. */
const UNDER_WAY = 'under way';

/**
 * Wraps a store and seals its values with a keyring before they reach `store`. A reader of its file or database sees
 * the keys and lifetimes of entries but no values, and cannot change a value, move it to another key, or restore it
 * after its expiry. The first key seals, all of them open. A writer can still delete entries, and restore earlier
 * values of the same key.
 *
 * The first call checks the keys against those that sealed the store, and fails with `store-wrong-key` if they do not
 * match.
 *
 * @param name distinguishes stores that share keys: values sealed for one name do not open for another.
 *
 * @example
 * ```ts
 * const store = sealedStore(myStore, parseKeys(process.env.VALISE_KEYS));
 * ```
 */
export function sealedStore(store: Store, keys: Keyring | string, name = ''): Store {
  return new SealedStore(store, keys, name);
}

/** Like {@link sealedStore}, but checks the keys first. Closes `store` if the check fails. */
export async function openSealed(store: Store, keys: Keyring, name: string, url?: string): Promise<Store> {
  try {
    const sealed = new SealedStore(store, keys, name, url);
    await sealed.check();
    return sealed;
  } catch (error) {
    await store.close();
    throw error;
  }
}

/**
 * Like {@link sealedStore}, for a part of a store whose name contains its key. It has no mark; each entry is checked by
 * itself.
 */
export function sealedPart(store: Store, keys: Keyring, name: string): Store {
  return new SealedStore(store, keys, name, undefined, false);
}

/** Seals the plain entries of `store`, or writes entries again if it is sealed already; see `sealInPlace`. */
export function sealEntries(store: Store, keys: Keyring, name: string, url?: string): Promise<number> {
  return new SealedStore(store, keys, name, url).sealEntries();
}

/** A sealed value, and its expiry in milliseconds since 1970. */
interface Opened {
  readonly value: Entry['value'];
  readonly until: number;
}

class SealedStore implements Store {
  readonly #inner: Store;
  readonly #sealer: Sealer;
  /** The name of this store in suggested commands. */
  readonly #url: string;
  #checked: Promise<void> | undefined;
  readonly scan?: NonNullable<Store['scan']>;

  constructor(inner: Store, keys: Keyring | string, name: string, url = 'URL', isMarked = true) {
    if (!isMarked) this.#checked = Promise.resolve();
    declareSecrecy(this, 'sealed');
    this.#inner = unguarded(inner);
    const scan = this.#inner.scan?.bind(this.#inner);
    if (scan)
      this.scan = async (prefix, options) => {
        await this.check();
        return withoutMark(await scan(prefix, options));
      };
    this.#url = url;
    this.#sealer = createSealer({
      keys,
      audience: `valise-store:${name}`,
      ttl: FOREVER,
      skew: FOREVER,
      maxBytes: 256 * 1024 * 1024,
    });
  }

  async get(key: string): Promise<Entry | undefined> {
    await this.#ready(key);
    const entry = await this.#inner.get(key);
    const opened = entry && this.#open(key, entry);
    // The expiry is sealed with the value, so an entry that was restored later is expired all the same.
    return opened && opened.until + SKEW > Date.now() ? { ...entry, value: opened.value } : undefined;
  }

  async put(key: string, value: Entry['value'], options?: PutOptions): Promise<string | undefined> {
    checkKey(key);
    // The value is sealed before the first await, because the caller may change it afterwards.
    const { ttl } = options ?? {};
    const token = this.#seal(key, value, ttl === undefined ? undefined : Date.now() + toMilliseconds(ttl));
    await this.#ready(key);
    return this.#inner.put(key, token, options);
  }

  async delete(key: string, options?: { readonly ifVersion?: string }): Promise<boolean> {
    await this.#ready(key);
    return this.#inner.delete(key, options);
  }

  async list(prefix: string, options?: ListOptions) {
    await this.check();
    return withoutMark(await this.#inner.list(prefix, options));
  }

  async lease(key: string, ttl: number): Promise<Lease | undefined> {
    await this.#ready(key);
    return this.#inner.lease(key, ttl);
  }

  async close(): Promise<void> {
    // A running check counts as pending work.
    await this.#checked?.catch(() => {});
    await this.#inner.close();
  }

  /** Verifies the keys, and marks the store as sealed if it is new. */
  check(): Promise<void> {
    if (this.#checked) return this.#checked;
    const checked = this.#check();
    this.#checked = checked;
    // The cause of a failure may be gone next time: the server was unreachable, or a key has been added since.
    checked.catch(() => (this.#checked = undefined));
    return checked;
  }

  #ready(key: string): Promise<void> {
    checkKey(key);
    if (key !== SEAL_MARK) return this.check();
    throw new ValiseError('store-invalid', `${SEAL_MARK} is a name that sealed stores need for themselves.`, {
      next: 'Choose another key.',
    });
  }

  async #check(): Promise<void> {
    let mark = await this.#inner.get(SEAL_MARK);
    if (!mark) {
      if (!(await isEmpty(this.#inner))) throw plainError(this.#url);
      if (await this.#inner.put(SEAL_MARK, this.#seal(SEAL_MARK, true), { ifAbsent: true })) return;
      mark = await this.#inner.get(SEAL_MARK);
    }
    if (!mark) return;
    if (this.#open(SEAL_MARK, mark).value === UNDER_WAY) throw plainError(this.#url);
    if (inspectToken(mark.value as string).kid === this.#sealer.kid) return;
    // The first key has changed. The mark is sealed again, so that the old key can be retired.
    await this.#inner.put(SEAL_MARK, this.#seal(SEAL_MARK, true), { ifVersion: mark.version });
  }

  async sealEntries(): Promise<number> {
    const mark = await this.#inner.get(SEAL_MARK);
    if (mark && this.#open(SEAL_MARK, mark).value !== UNDER_WAY) return reseal(this);
    for await (const key of everyKey(this.#inner))
      if (key !== SEAL_MARK && key.endsWith(SEAL_MARK)) throw partError(key.slice(0, -SEAL_MARK.length));
    // From here on, nobody can open the store without keys, and nobody can open it with keys until the mark says that
    // everything is sealed. The mark has the newest key of those that were used: a process without that key must not
    // mistake values sealed with it for plain ones.
    const condition = mark ? { ifVersion: mark.version } : { ifAbsent: true };
    const isMarked = await this.#inner.put(SEAL_MARK, this.#seal(SEAL_MARK, UNDER_WAY), condition);
    if (!isMarked) return this.sealEntries();
    let count = 0;
    for await (const key of everyKey(this.#inner))
      if (key !== SEAL_MARK && (await this.#sealEntry(key, mark === undefined))) count++;
    await this.#inner.put(SEAL_MARK, this.#seal(SEAL_MARK, true));
    return count;
  }

  /** Returns false if the entry is gone, or already sealed with the first key. */
  async #sealEntry(key: string, isFirst: boolean): Promise<boolean> {
    for (;;) {
      const entry = await this.#inner.get(key);
      if (!entry) return false;
      let { value } = entry;
      try {
        value = this.#open(key, entry).value;
        if (inspectToken(entry.value as string).kid === this.#sealer.kid) return false;
      } catch (error) {
        // The entry is plain, even if it looks like a token, unless an earlier run sealed it with a key that is missing now.
        const isPlain =
          error instanceof ValiseError &&
          (isFirst || error instanceof PlainEntryError || error.code !== 'store-wrong-key');
        if (!isPlain) throw error;
      }
      if (await this.#inner.put(key, this.#seal(key, value, entry.expiresAt), sameLife(entry))) return true;
    }
  }

  #seal(key: string, value: Entry['value'], until?: number): string {
    try {
      return until === undefined
        ? this.#sealer.seal(value, { purpose: PURPOSE, bind: key })
        : this.#sealer.seal([until, value], { purpose: PURPOSE_UNTIL, bind: key });
    } catch (error) {
      throw new ValiseError('store-invalid', `The value for ${JSON.stringify(key)} cannot be sealed.`, {
        next: 'Store text, finite numbers, booleans, null, and arrays and plain objects of them.',
        cause: error,
      });
    }
  }

  #open(key: string, { value, version, expiresAt }: Entry): Opened {
    const isMark = key === SEAL_MARK;
    const what = isMark ? 'The store' : `The entry ${JSON.stringify(key)}`;
    const isPlain = () => (isMark ? plainMarkError() : new PlainEntryError(key, version, this.#url));
    if (typeof value !== 'string') throw isPlain();
    try {
      if (expiresAt === undefined)
        return {
          value: this.#sealer.open(value, { purpose: PURPOSE, bind: key }),
          until: Number.POSITIVE_INFINITY,
        };
      const [until, own] = this.#sealer.open<[number, Entry['value']]>(value, {
        purpose: PURPOSE_UNTIL,
        bind: key,
      });
      return { value: own, until };
    } catch (error) {
      if (!(error instanceof SealError)) throw error;
      if (error.reason === 'malformed') throw isPlain();
      if (error.reason === 'unknown-key') throw wrongKeyError(what, inspectToken(value).kid, error);
      throw new ValiseError('store-corrupt', `${what} is not what was sealed under this name.`, {
        next: 'Somebody has changed it: restore it from a copy, or delete it.',
        cause: error,
      });
    }
  }
}

function withoutMark(page: KeyPage): KeyPage {
  return page.keys.includes(SEAL_MARK)
    ? { ...page, keys: page.keys.filter((key) => key !== SEAL_MARK) }
    : page;
}

/** Parses keys given as text, before anything is created that wrong keys would affect. */
export function toKeyring(keys: Keyring | string | undefined): Keyring | undefined {
  return typeof keys === 'string' ? parseKeys(keys) : keys;
}

/**
 * Writes every entry again, so that it is sealed with the first key and older keys can be removed from the keyring.
 * Safe while others write. Returns the number of entries written.
 *
 * @example
 * ```ts
 * const store = await openStore('sqlite:./state.db', { keys: `${newKey},${oldKey}` });
 * await reseal(store);
 * ```
 */
export async function reseal(store: Store): Promise<number> {
  let count = 0;
  for await (const key of everyKey(store)) {
    const entry = await store.get(key);
    if (entry && (await store.put(key, entry.value, sameLife(entry)))) count++;
  }
  return count;
}

/** Returns options that keep the expiry of a rewritten entry, and skip it if it was changed meanwhile. */
function sameLife({ version, expiresAt }: Entry): PutOptions {
  const life = expiresAt === undefined ? {} : { ttl: Math.max(0.001, (expiresAt - Date.now()) / 1000) };
  return { ...life, ifVersion: version };
}
