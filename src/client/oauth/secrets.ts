import { closeSync, readFileSync } from 'node:fs';
import { ValiseError } from '../../core/errors.ts';
import { generateKey, type Keyring, parseKeys } from '../../seal/index.ts';
import { secrecyOf } from '../../store/driver.ts';
import { fileLock } from '../../store/file/lock.ts';
import { namespaced } from '../../store/namespace.ts';
import { keysOf } from '../../store/page.ts';
import { fullPath, privateFile, quoted, replaceFile, statOf } from '../../store/private-file.ts';
import { sealedPart } from '../../store/sealed.ts';
import type { Store } from '../../store/types.ts';
import { openKeychainItem } from './keychain.ts';

/** Where secrets are stored. */
export interface SecretsOptions {
  /**
   * Where credentials are stored. By default they are sealed in the store, unless it is already sealed. The key is created
   * on first use, in the system's keychain or else in a file beside the store that only its owner can read. `'keychain'`
   * fails if there is no keychain. `'store'` does not use the keychain. A store receives the credentials unchanged,
   * whatever it is.
   */
  readonly secrets?: 'keychain' | 'store' | Store | undefined;
  /** Stores secrets as plain text. This is a choice, never a fallback. */
  readonly insecurePlaintext?: boolean | undefined;
}

/**
 * Where a sign-in is stored: in the client's store as it is, in the store that is the option `secrets`, or in the client's store sealed
 * with a key from a file or from the system's keychain.
 */
export type KeptIn = 'store' | 'secrets' | 'key-file' | 'keychain';

/** Every place where secrets can be. */
export interface SecretPlaces {
  readonly stores: readonly Store[];
  /** What each of {@link stores} is. */
  readonly kinds: readonly KeptIn[];
  /** Why some places are missing, if the store has secrets there. */
  readonly problem?: ValiseError;
}

/** The key file of stores that are not in a file. */
export const KEY_FILE = '~/.valise/client.key';

/**
 * Sealed entries have this prefix and the id of their key before their name, so that entries with other keys do not interfere.
 */
const PREFIX = 'secrets/';

/** The place for secrets, located when the first one is stored or read. */
export class Secrets {
  readonly #store: Store;
  readonly #options: SecretsOptions;
  readonly #keychain: KeyPlace;
  readonly #file: KeyPlace;
  #place: Promise<Store> | undefined;

  constructor(store: Store, options: SecretsOptions, path = KEY_FILE, keychain = keychainKey()) {
    this.#store = store;
    this.#options = options;
    this.#file = keyFile(path);
    this.#keychain = keychain;
  }

  /** Returns the secrets of a connection that has its own store. */
  within(store: Store | undefined): Secrets {
    return store ? new Secrets(store, this.#options, KEY_FILE, this.#keychain) : this;
  }

  /** Returns the store for secrets. Creates a key if one is needed and there is none. */
  place(): Promise<Store> {
    this.#place ??= this.#find().catch((error: unknown) => {
      this.#place = undefined;
      throw error;
    });
    return this.#place;
  }

  /**
   * Returns the store with the secrets that {@link place} has stored. Returns undefined if there can be none. Never creates
   * a key.
   */
  async existing(): Promise<Store | undefined> {
    const direct = this.#direct();
    if (direct || this.#place) return direct ?? this.#place;
    const { keys } = await this.#store.list(PREFIX, { limit: 1 });
    const key = keys.length > 0 ? (await this.#ownKey()).key : undefined;
    return key && this.#sealedWith(key);
  }

  /**
   * Returns every place where existing secrets can be. An earlier choice may have differed, or there may have been no keychain.
   */
  async everywhere(): Promise<SecretPlaces> {
    const { secrets } = this.#options;
    const stores = typeof secrets === 'object' ? [this.#store, secrets] : [this.#store];
    const kinds: KeptIn[] = typeof secrets === 'object' ? ['store', 'secrets'] : ['store'];
    const kids = new Set<string>();
    for await (const name of keysOf(this.#store, PREFIX)) kids.add(name.split('/')[1] ?? '');
    let problem: ValiseError | undefined;
    for (const at of [this.#file, this.#keychain]) {
      if (kids.size === 0) break;
      const key = await readOr(at, (why) => (problem = why));
      if (!key?.kids.some((kid) => kids.delete(kid))) continue;
      stores.push(this.#sealedWith(key));
      kinds.push(at === this.#file ? 'key-file' : 'keychain');
    }
    return kids.size === 0 ? { stores, kinds } : { stores, kinds, problem: problem ?? strangeKeyError() };
  }

  /** Returns the place that does not need our key. */
  #direct(): Store | undefined {
    const { secrets, insecurePlaintext } = this.#options;
    if (typeof secrets === 'object') return secrets;
    const isSafe = insecurePlaintext || secrecyOf(this.#store) !== undefined;
    return isSafe && secrets !== 'keychain' ? this.#store : undefined;
  }

  async #find(): Promise<Store> {
    const direct = this.#direct();
    if (direct) return direct;
    const { key, problems } = await this.#ownKey();
    if (key) return this.#sealedWith(key);
    for (const at of this.#places()) {
      if (problems.has(at)) continue;
      try {
        return this.#sealedWith(await at.make());
      } catch (error) {
        if (!(error instanceof ValiseError)) throw error;
        problems.set(at, error);
      }
    }
    throw new ValiseError(
      'no-keychain',
      `There is no safe place for tokens. ${[...problems.values()].map(({ what }) => what).join(' ')}`,
      {
        next: 'Give keys (VALISE_CLIENT_KEYS, made by: valise keys generate), or use a system with a keychain, or choose plain text with insecurePlaintext (--insecure-plaintext).',
      },
    );
  }

  /** Returns the first existing key, and why places could not be read. */
  async #ownKey(): Promise<{ key?: Keyring; problems: Map<KeyPlace, ValiseError> }> {
    const problems = new Map<KeyPlace, ValiseError>();
    for (const at of this.#places()) {
      const key = await readOr(at, (why) => problems.set(at, why));
      if (key) return { key, problems };
    }
    return { problems };
  }

  #places(): readonly KeyPlace[] {
    const { secrets } = this.#options;
    if (secrets === 'keychain') return [this.#keychain];
    return secrets === 'store' ? [this.#file] : [this.#keychain, this.#file];
  }

  #sealedWith(key: Keyring): Store {
    return sealedPart(namespaced(this.#store, `${PREFIX}${key.kids[0]}/`), key, 'secrets');
  }
}

/** Reads a key. Reports a missing keychain to `tell`, and rejects with any other error. */
async function readOr(at: KeyPlace, tell: (why: ValiseError) => void): Promise<Keyring | undefined> {
  try {
    return await at.read();
  } catch (error) {
    if (!(error instanceof ValiseError && error.code === 'no-keychain')) throw error;
    tell(error);
    return undefined;
  }
}

function strangeKeyError(): ValiseError {
  return new ValiseError('no-keys', 'The store has sign-ins whose key is not on this machine.', {
    next: 'Use them on the machine that has their key, or sign in again.',
  });
}

/**
 * Returns a store for secrets that is created only when the first secret is stored. Until then, reads find nothing. Most
 * servers require no sign-in.
 */
export function whenNeeded(secrets: Pick<Secrets, 'existing' | 'place'>): Store {
  return {
    get: async (key) => (await secrets.existing())?.get(key),
    list: async (prefix, options) => (await secrets.existing())?.list(prefix, options) ?? { keys: [] },
    delete: async (key, options) => (await secrets.existing())?.delete(key, options) ?? false,
    put: async (key, value, options) => (await secrets.place()).put(key, value, options),
    lease: async (key, ttl) => (await secrets.place()).lease(key, ttl),
    close: async () => {},
  };
}

/** A place for the key that seals credentials. */
export interface KeyPlace {
  /** Returns the existing key, if any. */
  read(): Promise<Keyring | undefined>;
  /** Returns the existing key, or creates one. Processes that do so at the same time get the same key. */
  make(): Promise<Keyring>;
}

const ABOUT = '# This key opens the sign-ins that Valise keeps in its store. Whoever has both can use them.';

/** Returns a key place in a file that only its owner can read. */
function keyFile(path: string): KeyPlace {
  const read = async (): Promise<Keyring | undefined> => {
    if (!statOf(fullPath(path))) return undefined;
    const file = privateFile(path);
    const text = readFileSync(file, 'utf8').replace(/^#.*\n?/gm, '');
    return keysFrom(
      text,
      file,
      `Restore it from a copy; or remove it, and sign in again: rm ${quoted(file)}`,
    );
  };
  return {
    read,
    async make() {
      const file = privateFile(path);
      const lock = fileLock(`${file}.lock`);
      await lock.acquire();
      try {
        const text = `${ABOUT}\n${generateKey()}\n`;
        const found = await read();
        if (found) return found;
        const made = replaceFile(file, `${file}.${lock.nonce}`, text, { ready: () => lock.held() });
        if (made?.fd !== undefined) closeSync(made.fd);
      } finally {
        lock.release();
      }
      const key = await read();
      if (key) return key;
      throw new ValiseError('store-busy', `${file} could not be made: another process was at it.`, {
        next: 'Try again.',
      });
    },
  };
}

/** Returns a key place in the system's keychain. */
function keychainKey(): KeyPlace {
  const open = () => openKeychainItem('mcp-valise', 'client-key');
  const parsed = (text: string) =>
    keysFrom(text, "The key in the system's keychain", 'Remove it, and sign in again.');
  return {
    async read() {
      const text = await (await open()).read();
      return text === undefined ? undefined : parsed(text);
    },
    make: async () => parsed(await (await open()).create(generateKey)),
  };
}

function keysFrom(text: string, from: string, next: string): Keyring {
  try {
    return parseKeys(text);
  } catch (cause) {
    throw new ValiseError('invalid-key', `${from} is not a valid key.`, { next, cause });
  }
}
