import { ValiseError } from '../../errors.ts';
import { isObject, type Json } from '../../json.ts';
import type { Keyring } from '../../seal/index.ts';
import { sha256 } from '../../sha256.ts';
import { checkKey, toMilliseconds, toText } from '../check.ts';
import { corruptEntryError } from '../entry-text.ts';
import { type FileLock, fileLock } from '../file/lock.ts';
import { plainFileStore } from '../file/store.ts';
import { pageOf } from '../page.ts';
import { privateFile } from '../private-file.ts';
import { openSealed, toKeyring } from '../sealed.ts';
import { declareSecrecy } from '../secrecy.ts';
import type { Entry, KeyPage, Lease, ListOptions, PutOptions, Store } from '../types.ts';
import { nextVersion } from '../version.ts';
import { Work } from '../work.ts';
import { type KeychainIndex, keychainIndex, openVault, type Vault } from './vault.ts';

/** Options for opening a keychain, and for its fallback file. */
export interface KeychainOptions {
  /**
   * The keyring (or its text) that seals the fallback file if there is no keychain. Without it, a missing keychain is
   * an error.
   */
  readonly keys?: Keyring | string | undefined;
  /** The fallback file; `~/.valise/keychain-SERVICE.json` by default. */
  readonly fallback?: string | undefined;
  /** Called with the reason when the fallback file is used instead of the keychain. */
  readonly onFallback?: ((notice: KeychainNotice) => void) | undefined;
}

/** The notice that there is no keychain and a sealed file is used instead. */
export interface KeychainNotice {
  readonly file: string;
  readonly reason: ValiseError;
}

const MAX_BYTES = 1_100_000;
const LOCK_SECONDS = 60;

/**
 * Opens a store in the system keychain (Keychain, Credential Manager, Secret Service), for secrets, with one item per
 * entry. If there is no keychain, uses a sealed file if `keys` are given, and throws otherwise. Nothing is ever stored
 * as plain text. Requires the package `@napi-rs/keyring`.
 *
 * @example
 * ```ts
 * import { keychainStore } from 'mcp-valise/store/keychain';
 *
 * const secrets = await keychainStore('my-app', {
 *   keys: process.env.VALISE_KEYS,
 *   onFallback: ({ file, reason }) => console.error(`${reason.message} Using ${file}.`),
 * });
 * ```
 */
export async function keychainStore(service: string, options: KeychainOptions = {}): Promise<Store> {
  checkService(service);
  const keys = toKeyring(options.keys);
  const { fallback = `~/.valise/keychain-${fileNameOf(service)}.json`, onFallback } = options;
  let vault: Vault;
  try {
    vault = await openVault(service);
  } catch (reason) {
    if (!(reason instanceof ValiseError) || keys === undefined) throw reason;
    const store = await openSealed(plainFileStore(fallback), keys, `keychain:${service}`);
    onFallback?.({ file: fallback, reason });
    return store;
  }
  return storeIn(service, vault);
}

/**
 * Returns why the keychain cannot be used, or undefined if it can.
 *
 * @example
 * ```ts
 * const problem = await keychainProblem('my-app');
 * if (problem) console.error(problem.message);
 * ```
 */
export async function keychainProblem(service: string): Promise<ValiseError | undefined> {
  checkService(service);
  try {
    await openVault(service);
    return undefined;
  } catch (error) {
    if (error instanceof ValiseError) return error;
    throw error;
  }
}

/** Returns the store in a vault that has been tested. */
export function storeIn(service: string, vault: Vault): Store {
  return new KeychainStore(vault, privateFile(`~/.valise/keychain-${fileNameOf(service)}.lock`));
}

interface Item {
  readonly value: Json;
  readonly version: string;
  readonly expiresAt: number | null;
}

/** An unreadable entry. Its version matches none that was ever issued. */
const DAMAGED = { version: undefined } as const;

function readItem(text: string): Item | undefined {
  try {
    const item: unknown = JSON.parse(text);
    if (!isObject(item) || typeof item['version'] !== 'string' || !('value' in item)) return undefined;
    const { expiresAt } = item;
    return expiresAt === null || typeof expiresAt === 'number' ? (item as unknown as Item) : undefined;
  } catch {
    return undefined;
  }
}

class KeychainStore implements Store {
  readonly #vault: Vault;
  readonly #index: KeychainIndex;
  readonly #lock: FileLock;
  readonly #work = new Work();
  #turn: Promise<unknown> = Promise.resolve();

  constructor(vault: Vault, lockFile: string) {
    declareSecrecy(this, 'keychain');
    this.#vault = vault;
    this.#index = keychainIndex(vault);
    this.#lock = fileLock(lockFile, { patience: LOCK_SECONDS });
  }

  get(key: string): Promise<Entry | undefined> {
    return this.#work.run(async () => {
      checkKey(key);
      const found = await this.#found(key);
      if (found === DAMAGED) throw corruptEntryError(key);
      return found as Entry | undefined;
    });
  }

  put(key: string, value: Json, { ttl, ifVersion, ifAbsent }: PutOptions = {}): Promise<string | undefined> {
    return this.#work.run(async () => {
      checkKey(key);
      const text = toText(key, value);
      checkSize(key, text);
      const length = ttl === undefined ? undefined : toMilliseconds(ttl);
      return this.#alone(async () => {
        if (ifVersion !== undefined || ifAbsent) {
          const found = await this.#found(key);
          if (ifAbsent && found) return undefined;
          if (ifVersion !== undefined && found?.version !== ifVersion) return undefined;
        }
        const version = nextVersion();
        const expiresAt = length === undefined ? null : Date.now() + length;
        // The name is written first: a name without an entry is harmless, but an entry without a name would never be found.
        await this.#index.set(key, expiresAt);
        await this.#vault.write(
          `key:${key}`,
          `{"version":${JSON.stringify(version)},"expiresAt":${expiresAt},"value":${text}}`,
        );
        return version;
      });
    });
  }

  delete(key: string, { ifVersion }: { readonly ifVersion?: string } = {}): Promise<boolean> {
    return this.#work.run(async () => {
      checkKey(key);
      return this.#alone(async () => {
        const found = await this.#found(key);
        if (!found || (ifVersion !== undefined && found.version !== ifVersion)) return false;
        await this.#vault.remove(`key:${key}`);
        await this.#index.remove(key);
        return true;
      });
    });
  }

  list(prefix: string, options: ListOptions = {}): Promise<KeyPage> {
    return this.#work.run(async () =>
      pageOf(await this.#index.living(Date.now()), prefix, options, () => true),
    );
  }

  lease(key: string, ttl: number): Promise<Lease | undefined> {
    return this.#work.run(async () => {
      checkKey(key);
      const length = toMilliseconds(ttl);
      return this.#alone(async () => {
        if (await this.#holder(key)) return undefined;
        const fence = Number((await this.#vault.read('fence')) ?? 0) + 1;
        await this.#vault.write('fence', String(fence));
        await this.#hold(key, fence, length);
        return this.#leaseOf(key, fence);
      });
    });
  }

  close(): Promise<void> {
    return this.#work.close(() => {});
  }

  #leaseOf(key: string, fence: number): Lease {
    return {
      fence,
      renew: (ttl) =>
        this.#work.run(async () => {
          const length = toMilliseconds(ttl);
          return this.#alone(async () => {
            if ((await this.#holder(key)) !== fence) return false;
            await this.#hold(key, fence, length);
            return true;
          });
        }),
      release: async () => {
        if (this.#work.closed) return;
        await this.#work.run(() =>
          this.#alone(async () => {
            if ((await this.#holder(key)) === fence) await this.#vault.remove(`lease:${key}`);
          }),
        );
      },
    };
  }

  /** Returns the fence of the current lease holder. */
  async #holder(key: string): Promise<number | undefined> {
    const text = await this.#vault.read(`lease:${key}`);
    const [fence, until] =
      /^\[(\d+),(\d+)\]$/
        .exec(text ?? '')
        ?.slice(1)
        .map(Number) ?? [];
    return until !== undefined && until > Date.now() ? fence : undefined;
  }

  #hold(key: string, fence: number, milliseconds: number): Promise<void> {
    return this.#vault.write(`lease:${key}`, JSON.stringify([fence, Date.now() + milliseconds]));
  }

  /** Returns the unexpired entry. An unreadable one counts as present, and can be deleted and overwritten. */
  async #found(key: string): Promise<Entry | typeof DAMAGED | undefined> {
    const text = await this.#vault.read(`key:${key}`);
    if (text === undefined) return undefined;
    const item = readItem(text);
    if (!item) return DAMAGED;
    const { version, expiresAt, value } = item;
    if (expiresAt === null) return { value, version };
    return expiresAt > Date.now() ? { value, version, expiresAt } : undefined;
  }

  /** Runs `work` exclusively, in this process and across processes, because keychains have no compare-and-set. */
  #alone<Result>(work: () => Promise<Result>): Promise<Result> {
    const turn = this.#turn.then(async () => {
      await this.#lock.acquire();
      try {
        return await work();
      } finally {
        this.#lock.release();
      }
    });
    this.#turn = turn.catch(() => {});
    return turn;
  }
}

function checkService(service: string): void {
  if (typeof service === 'string' && /^\P{Cc}{1,200}$/u.test(service)) return;
  throw new ValiseError('store-invalid', 'keychain: lacks the name of a service.', {
    next: 'Write it like keychain:my-app.',
  });
}

function checkSize(key: string, text: string): void {
  if (Buffer.byteLength(text) <= MAX_BYTES) return;
  throw new ValiseError('too-large', `The value for ${JSON.stringify(key)} is too large for a keychain.`, {
    next: 'Keep secrets in the keychain, of 1 MB at most, and the rest in another store.',
  });
}

/** Returns a valid file name for every system, different for every service. */
function fileNameOf(service: string): string {
  if (/^[a-z0-9_-]{1,64}$/.test(service)) return service;
  const digest = sha256(service, 'hex').slice(0, 12);
  return `${service.replace(/[^\w-]/g, '_').slice(0, 40)}.${digest}`;
}
