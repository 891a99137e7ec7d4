import { ValiseError } from '../errors.ts';
import {
  createSealer,
  inspectToken,
  type Keyring,
  parseKeys,
  SealError,
  type Sealer,
} from '../seal/index.ts';
import { checkKey, toMilliseconds } from './check.ts';
import { keysOf } from './page.ts';
import { PlainEntryError, partError, plainError, plainMarkError, wrongKeyError } from './sealed-error.ts';
import { declareSecrecy } from './secrecy.ts';
import type { Entry, Lease, ListOptions, PutOptions, Store } from './types.ts';
import { SEAL_MARK, unguarded } from './unsealed.ts';

// What is kept has the lifetime of its entry and no other; also a clock that was wrong for a while must not make it unreadable.
const FOREVER = 3e9;
/** For entries without an end. */
const PURPOSE = 'store';
/** For entries with one, which is sealed with the value. */
const PURPOSE_UNTIL = 'until of a store';
/** By how much the clocks of those who share a store may differ, in milliseconds. */
const SKEW = 300_000;
/** What the mark says while plain entries are being sealed: the store opens for nobody until all of them are. */
const UNDER_WAY = 'under way';

/**
 * A store whose values are sealed with a keyring before they reach `store`: whoever reads its file or database sees names and lifetimes of entries,
 * but no values, and can neither change a value, nor put it under another name, nor bring it back after its end. The first key seals,
 * all of them open. Whoever can write can delete entries, and put back what was under the same name before.
 *
 * The first call checks the keys against those the store was sealed with, and fails with `store-wrong-key` where they do not fit.
 *
 * @param name says apart stores that share keys: what is sealed for one name does not open for another.
 *
 * @example
 * ```ts
 * const store = sealedStore(myStore, parseKeys(process.env.VALISE_KEYS));
 * ```
 */
export function sealedStore(store: Store, keys: Keyring | string, name = ''): Store {
  return new SealedStore(store, keys, name);
}

/** As {@link sealedStore}, with the keys checked before anything else is done. Closes `store` where they do not fit. */
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

/** As {@link sealedStore}, for a part of a store that has its key in its name: nothing marks it, and it is checked entry by entry. */
export function sealedPart(store: Store, keys: Keyring, name: string): Store {
  return new SealedStore(store, keys, name, undefined, false);
}

/** Seals what `store` holds as plain text, or writes it again where it is sealed already; see `sealInPlace`. */
export function sealEntries(store: Store, keys: Keyring, name: string, url?: string): Promise<number> {
  return new SealedStore(store, keys, name, url).sealEntries();
}

/** What was sealed, and its end in milliseconds since 1970. */
interface Opened {
  readonly value: Entry['value'];
  readonly until: number;
}

class SealedStore implements Store {
  readonly #inner: Store;
  readonly #sealer: Sealer;
  /** How the command line is told which store this is. */
  readonly #url: string;
  #checked: Promise<void> | undefined;

  constructor(inner: Store, keys: Keyring | string, name: string, url = 'URL', isMarked = true) {
    if (!isMarked) this.#checked = Promise.resolve();
    declareSecrecy(this, 'sealed');
    this.#inner = unguarded(inner);
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
    // Its end is sealed with it: one that has been put back later is over all the same.
    return opened && opened.until + SKEW > Date.now() ? { ...entry, value: opened.value } : undefined;
  }

  async put(key: string, value: Entry['value'], options?: PutOptions): Promise<string | undefined> {
    checkKey(key);
    // Before anything is waited for: the value may be changed by then.
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
    const page = await this.#inner.list(prefix, options);
    return SEAL_MARK.startsWith(prefix)
      ? { ...page, keys: page.keys.filter((key) => key !== SEAL_MARK) }
      : page;
  }

  async lease(key: string, ttl: number): Promise<Lease | undefined> {
    await this.#ready(key);
    return this.#inner.lease(key, ttl);
  }

  async close(): Promise<void> {
    // A check under way is work under way.
    await this.#checked?.catch(() => {});
    await this.#inner.close();
  }

  /** Makes sure that these are the keys; marks the store as sealed where it is new. */
  check(): Promise<void> {
    if (this.#checked) return this.#checked;
    const checked = this.#check();
    this.#checked = checked;
    // What went wrong may be over the next time: a server that was away, a key that has been added.
    checked.catch(() => (this.#checked = undefined));
    return checked;
  }

  #ready(key: string): Promise<void> {
    checkKey(key);
    if (key !== SEAL_MARK) return this.check();
    throw new ValiseError('store-bad-key', `${SEAL_MARK} is a name that sealed stores need for themselves.`, {
      next: 'Choose another key.',
    });
  }

  async #check(): Promise<void> {
    let mark = await this.#inner.get(SEAL_MARK);
    if (!mark) {
      if ((await this.#inner.list('', { limit: 1 })).keys.length > 0) throw plainError(this.#url);
      if (await this.#inner.put(SEAL_MARK, this.#seal(SEAL_MARK, true), { ifAbsent: true })) return;
      mark = await this.#inner.get(SEAL_MARK);
    }
    if (!mark) return;
    if (this.#open(SEAL_MARK, mark).value === UNDER_WAY) throw plainError(this.#url);
    if (inspectToken(mark.value as string).kid === this.#sealer.kid) return;
    // The first key has changed: the mark goes along, so that the old one can be retired.
    await this.#inner.put(SEAL_MARK, this.#seal(SEAL_MARK, true), { ifVersion: mark.version });
  }

  async sealEntries(): Promise<number> {
    const mark = await this.#inner.get(SEAL_MARK);
    if (mark && this.#open(SEAL_MARK, mark).value !== UNDER_WAY) return reseal(this);
    for await (const key of keysOf(this.#inner))
      if (key !== SEAL_MARK && key.endsWith(SEAL_MARK)) throw partError(key.slice(0, -SEAL_MARK.length));
    // From here on nobody opens it without keys; and with them nobody does until the mark says that all is sealed. It has
    // the newest key of those who were at work: who lacks one must not take what that one sealed for plain.
    const condition = mark ? { ifVersion: mark.version } : { ifAbsent: true };
    const isMarked = await this.#inner.put(SEAL_MARK, this.#seal(SEAL_MARK, UNDER_WAY), condition);
    if (!isMarked) return this.sealEntries();
    let count = 0;
    for await (const key of keysOf(this.#inner))
      if (key !== SEAL_MARK && (await this.#sealEntry(key, mark === undefined))) count++;
    await this.#inner.put(SEAL_MARK, this.#seal(SEAL_MARK, true));
    return count;
  }

  /** False where the entry is gone, or sealed with the first key already. */
  async #sealEntry(key: string, isFirst: boolean): Promise<boolean> {
    for (;;) {
      const entry = await this.#inner.get(key);
      if (!entry) return false;
      let { value } = entry;
      try {
        value = this.#open(key, entry).value;
        if (inspectToken(entry.value as string).kid === this.#sealer.kid) return false;
      } catch (error) {
        // Plain, also where it looks like a token; unless the work was begun before, with a key that is missing now.
        const isPlain = error instanceof ValiseError && (isFirst || error.code !== 'store-wrong-key');
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
      throw new ValiseError('store-bad-value', `The value for ${JSON.stringify(key)} cannot be sealed.`, {
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
      if (error.code === 'malformed') throw isPlain();
      if (error.code === 'unknown-key') throw wrongKeyError(what, inspectToken(value).kid, error);
      throw new ValiseError('store-tampered', `${what} is not what was sealed under this name.`, {
        next: 'Somebody has changed it: restore it from a copy, or delete it.',
        cause: error,
      });
    }
  }
}

/** Reads keys that may be text, before anything is made for which they would turn out to be wrong. */
export function toKeyring(keys: Keyring | string | undefined): Keyring | undefined {
  return typeof keys === 'string' ? parseKeys(keys) : keys;
}

/**
 * Writes every entry again, so that it is sealed with the first key and older ones can be taken off the keyring. Goes well with others writing; how many were written.
 *
 * @example
 * ```ts
 * const store = await openStore('sqlite:./state.db', { keys: `${newKey},${oldKey}` });
 * await reseal(store);
 * ```
 */
export async function reseal(store: Store): Promise<number> {
  let count = 0;
  for await (const key of keysOf(store)) {
    const entry = await store.get(key);
    if (entry && (await store.put(key, entry.value, sameLife(entry)))) count++;
  }
  return count;
}

/** Written again, an entry ends when it would have; and not where somebody else has written it. */
function sameLife({ version, expiresAt }: Entry): PutOptions {
  const life = expiresAt === undefined ? {} : { ttl: Math.max(0.001, (expiresAt - Date.now()) / 1000) };
  return { ...life, ifVersion: version };
}
