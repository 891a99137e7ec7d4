import { fileURLToPath } from 'node:url';
import type { Duration } from '../duration.ts';
import { ValiseError } from '../errors.ts';
import type { Keyring } from '../seal/index.ts';
import { requireDriver } from './driver.ts';
import { plainFileStore } from './file/store.ts';
import { memoryBus } from './memory/bus.ts';
import { memoryStore } from './memory/store.ts';
import { namespaced } from './namespace.ts';
import { fullPath, quoted } from './private-file.ts';
import { openSealed, reseal, sealEntries, toKeyring } from './sealed.ts';
import { loadSqlite } from './sqlite/library.ts';
import type { Bus, Store } from './types.ts';
import { refuseSealed } from './unsealed.ts';

/** How a store is opened. */
export interface OpenStoreOptions {
  /** Seals values at rest with this keyring (or its text); see `sealedStore`. For `keychain:`, where there is no keychain, the file that takes its place. */
  readonly keys?: Keyring | string | undefined;
  /** Keeps to keys that start with this, and leaves it out of them. */
  readonly prefix?: string | undefined;
  /** Redis and PostgreSQL: how long a call waits for a server that is away. */
  readonly timeout?: Duration | undefined;
  /**
   * Redis and PostgreSQL: `'replicated'` makes the writes of sessions and effects count as done only when a replica has them
   * too, so that a failover does not lose them. @defaultValue `'local'`
   */
  readonly durability?: 'local' | 'replicated' | undefined;
}

/** How a bus is opened. */
export interface OpenBusOptions {
  /** Redis and PostgreSQL: how long a call waits for a server that is away. */
  readonly timeout?: Duration | undefined;
}

const KNOWN =
  'Use memory:, file:PATH, sqlite:PATH, redis://HOST:PORT, postgres://HOST:PORT/DATABASE or keychain:SERVICE.';

/**
 * Opens the store that a URL names. What is not there yet is made; what is there is checked.
 *
 * | URL | store |
 * |---|---|
 * | `memory:` | this process's memory |
 * | `file:PATH` | one JSON file |
 * | `sqlite:PATH` | an SQLite database, the embedded default |
 * | `redis://…`, `rediss://…` | Redis or Valkey; `redis+cluster://a,b`, `redis+sentinel://a,b/NAME` |
 * | `postgres://…`, `postgresql://…` | PostgreSQL, also with several hosts |
 * | `keychain:SERVICE` | the system's keychain, for secrets |
 *
 * @example
 * ```ts
 * const store = await openStore('sqlite:~/.valise/state.db', { keys: process.env.VALISE_KEYS });
 * ```
 */
export async function openStore(url: string, options: OpenStoreOptions = {}): Promise<Store> {
  const { prefix = '' } = options;
  const keys = toKeyring(options.keys);
  const { scheme, rest } = split(url);
  if (scheme === 'keychain') {
    const { keychainStore } = await import('./keychain/store.ts');
    return namespaced(await keychainStore(rest, { keys }), prefix);
  }
  const store = namespaced(await openPlain(url, scheme, rest, options), prefix);
  return keys === undefined
    ? refuseSealed(store, nameOf(scheme, rest))
    : openSealed(store, keys, prefix, shown(url, scheme));
}

/**
 * Seals everything that a store holds with the first key: once, where it was written without keys and is to have some from now on; or again,
 * so that older keys can be taken off the keyring. A store (or its URL) that was begun without keys opens with them only after this.
 * Those who use the store without keys must end first. What was broken off is gone on with by the same call. How many entries were sealed.
 *
 * @example
 * ```ts
 * await sealInPlace('sqlite:~/.valise/state.db', { keys: loadKeys() });
 * ```
 */
export async function sealInPlace(
  store: string | Store,
  options: OpenStoreOptions & { readonly keys: Keyring | string },
): Promise<number> {
  const { prefix = '' } = options;
  const keys = toKeyring(options.keys);
  // What a key seals that lives as long as the process is lost.
  if (!keys || keys.ephemeral)
    throw new ValiseError('no-keys', 'There are no keys to seal the store with.', {
      next: 'Give the option keys.',
    });
  if (typeof store !== 'string') return sealEntries(namespaced(store, prefix), keys, prefix);
  const { scheme, rest } = split(store);
  // A keychain is never plain, and neither is the file that takes its place.
  const isSealed = scheme === 'keychain';
  const opened = isSealed ? await openStore(store, options) : await openPlain(store, scheme, rest, options);
  try {
    return isSealed
      ? await reseal(opened)
      : await sealEntries(namespaced(opened, prefix), keys, prefix, shown(store, scheme));
  } finally {
    await opened.close();
  }
}

const SCHEMES = new Set(['memory', 'file', 'sqlite', 'postgres', 'postgresql', 'keychain']);

/** Redis and Valkey, also over TLS, as a Cluster or behind Sentinel. */
const REDIS = /^(redis|valkey)s?(\+(cluster|sentinel))?$/;

/** Throws if a URL names no store, for those who open it later. */
export function checkStoreUrl(url: string): void {
  const { scheme, rest } = split(url);
  if (!SCHEMES.has(scheme) && !REDIS.test(scheme)) throw unknownError(scheme);
  if (scheme === 'memory') checkNameless(rest);
  fileOf(url);
}

/** Throws if the package that the store of a URL needs is not installed. */
export function checkDriver(url: string): void {
  const { scheme } = split(url);
  if (scheme === 'sqlite') loadSqlite();
  if (REDIS.test(scheme)) requireDriver('ioredis');
  if (scheme.startsWith('postgres')) requireDriver('pg');
}

/** Buses of one name are one; whoever gave a store a name would expect that of it too. */
function checkNameless(rest: string): void {
  if (rest !== '' && rest !== '//')
    throw badUrlError(
      'memory: takes no name: each store in memory is one of its own.',
      'Write memory: alone; what is to share a store gets the same one, made with memoryStore().',
    );
}

/** The file that a URL names, where its store is in one. */
export function fileOf(url: string): string | undefined {
  const { scheme, rest } = split(url);
  return scheme === 'file' || scheme === 'sqlite' ? fullPath(toPath(scheme, rest)) : undefined;
}

const BUSES = /^(memory|postgres(ql)?|(redis|valkey)s?(\+(cluster|sentinel))?)$/;

/** True for a URL that {@link openBus} takes, for those who open it later. */
export function isBusUrl(url: unknown): boolean {
  return typeof url === 'string' && BUSES.test(url.slice(0, Math.max(0, url.indexOf(':'))).toLowerCase());
}

/**
 * Opens the bus that a URL names: `memory:` (or `memory:NAME`, which all of that name in this process share), `redis://…`, `rediss://…`,
 * `postgres://…` or `postgresql://…`.
 *
 * @example
 * ```ts
 * const bus = await openBus('redis://127.0.0.1:6379');
 * ```
 */
export async function openBus(url: string, options: OpenBusOptions = {}): Promise<Bus> {
  const { scheme, rest } = split(url);
  if (REDIS.test(scheme)) {
    const { openRedisBus } = await import('./redis/bus.ts');
    return openRedisBus(url, given(options));
  }
  switch (scheme) {
    case 'memory':
      return memoryBus(rest === '' ? undefined : rest);
    case 'postgres':
    case 'postgresql': {
      const { openPostgresBus } = await import('./postgres/bus.ts');
      return openPostgresBus(url, given(options));
    }
    default:
      throw badUrlError(`There is no bus on ${scheme}:.`, 'Use memory:, redis:// or postgres://.');
  }
}

/** As {@link openStore}, with what the store holds as it is there, sealed or not: for those who copy it. */
export function openAsItIs(url: string): Promise<Store> {
  const { scheme, rest } = split(url);
  return scheme === 'keychain' ? openStore(url) : openPlain(url, scheme, rest, {});
}

async function openPlain(
  url: string,
  scheme: string,
  rest: string,
  options: OpenStoreOptions,
): Promise<Store> {
  if (REDIS.test(scheme)) {
    const { openRedisStore } = await import('./redis/store.ts');
    return openRedisStore(url, given(options));
  }
  switch (scheme) {
    case 'memory':
      checkNameless(rest);
      return memoryStore();
    case 'file':
      return plainFileStore(toPath(scheme, rest));
    case 'sqlite': {
      const { plainSqliteStore } = await import('./sqlite/store.ts');
      return plainSqliteStore(toPath(scheme, rest));
    }
    case 'postgres':
    case 'postgresql': {
      const { openPostgresStore } = await import('./postgres/store.ts');
      return openPostgresStore(url, given(options));
    }
    default:
      throw unknownError(scheme);
  }
}

function unknownError(scheme: string): ValiseError {
  return badUrlError(`${JSON.stringify(`${scheme}:`)} names no kind of store.`, KNOWN);
}

function split(url: string): { scheme: string; rest: string } {
  const match = typeof url === 'string' ? /^([a-z][a-z0-9+.-]*):(.*)$/is.exec(url) : null;
  // The URL itself stays out of the message: it may hold a password.
  if (!match) throw badUrlError('What was given is not the URL of a store.', KNOWN);
  return { scheme: (match[1] as string).toLowerCase(), rest: match[2] as string };
}

/** The path in `file:state.json`, `sqlite:~/state.db` or `file:///var/state.json`. */
function toPath(scheme: string, rest: string): string {
  if (rest === '')
    throw badUrlError(
      `${scheme}: lacks a path.`,
      `Write it like ${scheme}:./state or ${scheme}:~/.valise/state.`,
    );
  if (!rest.startsWith('//')) return rest;
  try {
    return fileURLToPath(`file:${rest}`);
  } catch (error) {
    throw badUrlError(
      `${scheme}:${rest} is not the URL of a file.`,
      `Write it like ${scheme}:///var/state.`,
      error,
    );
  }
}

function nameOf(scheme: string, rest: string): string {
  return scheme === 'file' || scheme === 'sqlite' ? rest : `The store on ${scheme}:`;
}

/** As a command is to name it; what may hold a password is left for whoever knows it to fill in. */
function shown(url: string, scheme: string): string {
  return scheme === 'file' || scheme === 'sqlite' || !/[@?]/.test(url) ? quoted(url) : 'URL';
}

function given({ timeout, durability }: OpenStoreOptions): {
  timeout?: Duration;
  durability?: 'local' | 'replicated';
} {
  return { ...(timeout !== undefined && { timeout }), ...(durability !== undefined && { durability }) };
}

function badUrlError(message: string, next: string, cause?: unknown): ValiseError {
  return new ValiseError('store-bad-url', message, { next, cause });
}
