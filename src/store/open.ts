import { fileURLToPath } from 'node:url';
import type { Duration } from '../core/duration.ts';
import { ValiseError } from '../core/errors.ts';
import type { Keyring } from '../seal/index.ts';
import { plainFileStore } from './file/store.ts';
import { memoryBus } from './memory/bus.ts';
import { memoryStore } from './memory/store.ts';
import { namespaced } from './namespace.ts';
import { requireDriver } from './packages.ts';
import { refuseSealed } from './plain.ts';
import { fullPath, quoted } from './private-file.ts';
import { openSealed, sealEntries, toKeyring } from './sealed.ts';
import { loadSqlite } from './sqlite/library.ts';
import type { Bus, Store } from './types.ts';

/** Options of {@link openStore}. */
export interface OpenStoreOptions {
  /**
   * Seals values at rest with this keyring (or its text); see `sealedStore`.
   */
  readonly keys?: Keyring | string | undefined;
  /** Restricts the store to keys that start with this prefix, and removes the prefix from them. */
  readonly prefix?: string | undefined;
  /** Redis, PostgreSQL and Upstash: how long a call waits for an unreachable server. */
  readonly timeout?: Duration | undefined;
  /**
   * Redis and PostgreSQL: with `'replicated'`, a write of a session or an effect is done only when a replica has it
   * too, so that a failover does not lose it. @defaultValue `'local'`
   */
  readonly durability?: 'local' | 'replicated' | undefined;
}

/** Options of {@link openBus}. */
export interface OpenBusOptions {
  /** Redis and PostgreSQL: how long a call waits for an unreachable server. */
  readonly timeout?: Duration | undefined;
}

const KNOWN =
  'Use memory:, file:PATH, sqlite:PATH, redis://HOST:PORT, postgres://HOST:PORT/DATABASE or upstash://TOKEN@HOST.';

/**
 * Opens the store that a URL names. Creates it if it does not exist, and checks it if it does.
 *
 * | URL | store |
 * |---|---|
 * | `memory:` | this process's memory |
 * | `file:PATH` | one JSON file |
 * | `sqlite:PATH` | an SQLite database, the embedded default |
 * | `redis://…`, `rediss://…` | Redis or Valkey; `redis+cluster://a,b`, `redis+sentinel://a,b/NAME` |
 * | `postgres://…`, `postgresql://…` | PostgreSQL, also with several hosts |
 * | `upstash://TOKEN@HOST` | Upstash Redis over HTTP |
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
  const store = namespaced(await openPlain(url, scheme, rest, options), prefix);
  return keys === undefined
    ? refuseSealed(store, nameOf(scheme, rest))
    : openSealed(store, keys, prefix, shown(url, scheme));
}

/**
 * Seals all entries of a store with the first key: the first time, if the store was written without keys; or again, so
 * that older keys can be removed from the keyring. A store (or its URL) that was created without keys opens with keys
 * only after this. Stop all processes that use the store without keys first. Safe to re-run after an interruption.
 * Returns the number of entries sealed.
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
  // Data sealed with a key that lives as long as the process would be lost.
  if (!keys || keys.ephemeral)
    throw new ValiseError('no-keys', 'There are no keys to seal the store with.', {
      next: 'Give the option keys.',
    });
  if (typeof store !== 'string') return sealEntries(namespaced(store, prefix), keys, prefix);
  const { scheme, rest } = split(store);
  const opened = await openPlain(store, scheme, rest, options);
  try {
    return await sealEntries(namespaced(opened, prefix), keys, prefix, shown(store, scheme));
  } finally {
    await opened.close();
  }
}

const SCHEMES = new Set(['memory', 'file', 'sqlite', 'postgres', 'postgresql', 'upstash']);

/** Matches Redis and Valkey, including TLS, Cluster and Sentinel. */
const REDIS = /^(redis|valkey)s?(\+(cluster|sentinel))?$/;

/** Throws if a URL does not name a store. For callers that open it later. */
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

/**
 * Rejects a name after `memory:`. Memory buses with the same name are shared, so a caller would expect the same of a
 * named store.
 */
function checkNameless(rest: string): void {
  if (rest !== '' && rest !== '//')
    throw badUrlError(
      'memory: takes no name: each store in memory is one of its own.',
      'Write memory: alone; what is to share a store gets the same one, made with memoryStore().',
    );
}

/** Returns the file that a URL names, or undefined if its store is not in a file. */
export function fileOf(url: string): string | undefined {
  const { scheme, rest } = split(url);
  return scheme === 'file' || scheme === 'sqlite' ? fullPath(toPath(scheme, rest)) : undefined;
}

const BUSES = /^(memory|postgres(ql)?|(redis|valkey)s?(\+(cluster|sentinel))?)$/;

/** Whether {@link openBus} accepts the URL. For callers that open it later. */
export function isBusUrl(url: unknown): boolean {
  return typeof url === 'string' && BUSES.test(url.slice(0, Math.max(0, url.indexOf(':'))).toLowerCase());
}

/**
 * Opens the bus that a URL names: `memory:` (or `memory:NAME`, shared by all with that name in this process),
 * `redis://…`, `rediss://…`, `postgres://…` or `postgresql://…`.
 *
 * @example
 * ```ts
 * const bus = await openBus('redis://127.0.0.1:6379');
 * ```
 */
export async function openBus(url: string, options: OpenBusOptions = {}): Promise<Bus> {
  const { scheme, rest } = split(url);
  if (REDIS.test(scheme)) {
    const { redisBus } = await import('./redis/index.ts');
    return redisBus(url, given(options));
  }
  switch (scheme) {
    case 'memory':
      return memoryBus(rest === '' ? undefined : rest);
    case 'postgres':
    case 'postgresql': {
      const { postgresBus } = await import('./postgres/bus.ts');
      return postgresBus(url, given(options));
    }
    default:
      throw badUrlError(`There is no bus on ${scheme}:.`, 'Use memory:, redis:// or postgres://.');
  }
}

/** Opens a store like {@link openStore}, but returns the stored values as they are, sealed or not. For copying. */
export function openAsItIs(url: string): Promise<Store> {
  const { scheme, rest } = split(url);
  return openPlain(url, scheme, rest, {});
}

async function openPlain(
  url: string,
  scheme: string,
  rest: string,
  options: OpenStoreOptions,
): Promise<Store> {
  if (REDIS.test(scheme)) {
    const { redisStore } = await import('./redis/index.ts');
    return redisStore(url, given(options));
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
      const { postgresStore } = await import('./postgres/store.ts');
      return postgresStore(url, given(options));
    }
    case 'upstash': {
      if (options.durability === 'replicated')
        throw badUrlError(
          "upstash: does not support durability: 'replicated': over HTTP it cannot wait for a replica.",
          'Use redis:// or postgres://, or leave durability out.',
        );
      const { upstashStore } = await import('./upstash/store.ts');
      return upstashStore(url, given(options));
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
  // The URL is not part of the message, because it may contain a password.
  if (!match) throw badUrlError('What was given is not the URL of a store.', KNOWN);
  return { scheme: (match[1] as string).toLowerCase(), rest: match[2] as string };
}

/** Returns the path in `file:state.json`, `sqlite:~/state.db` or `file:///var/state.json`. */
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

/** Returns the URL for use in a suggested command, or a placeholder if it may contain a password. */
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
  return new ValiseError('store-invalid', message, { next, cause });
}
