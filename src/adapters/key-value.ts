import { ValiseError } from '../core/errors.ts';
import { isObject, type Json } from '../core/json.ts';
import { entryPages, keysOf } from '../store/page.ts';
import type { PostgresPool } from '../store/postgres/connection.ts';
import type { RedisClient } from '../store/redis/connection.ts';
import { isStore, type Store } from '../store/types.ts';

/** `Driver` of unstorage. */
export interface UnstorageDriver {
  readonly name: string;
  getInstance(): Store;
  hasItem(key: string): Promise<boolean>;
  getItem(key: string): Promise<Json>;
  setItem(key: string, value: string, options?: object): Promise<void>;
  removeItem(key: string): Promise<void>;
  getKeys(base?: string): Promise<string[]>;
  clear(base?: string): Promise<void>;
}

const UNSTORAGE = 'adapters/unstorage/';

/**
 * Makes a store a driver of unstorage, and so of Nitro and Nuxt. Lifetimes are in seconds, as in unstorage's own
 * drivers: `setItem(key, value, { ttl: 60 })`. The store stays open when the storage is disposed.
 *
 * @example
 * ```ts
 * const storage = createStorage({ driver: unstorageDriver(await openStore('sqlite:state.db')) });
 * ```
 */
export function unstorageDriver(store: Store): UnstorageDriver {
  const getKeys = async (base = ''): Promise<string[]> => {
    const keys: string[] = [];
    for await (const key of keysOf(store, UNSTORAGE + base)) keys.push(key.slice(UNSTORAGE.length));
    return keys;
  };
  return {
    name: 'valise',
    getInstance: () => store,
    hasItem: async (key) => (await store.get(UNSTORAGE + key)) !== undefined,
    getItem: async (key) => (await store.get(UNSTORAGE + key))?.value ?? null,
    async setItem(key, value, options) {
      const ttl = isObject(options) && typeof options['ttl'] === 'number' ? options['ttl'] : undefined;
      await store.put(UNSTORAGE + key, value, ttl === undefined ? {} : { ttl });
    },
    async removeItem(key) {
      await store.delete(UNSTORAGE + key);
    },
    getKeys,
    async clear(base) {
      for (const key of await getKeys(base)) await store.delete(UNSTORAGE + key);
    },
  };
}

/** A storage adapter of Keyv. */
export interface KeyvStorage {
  /** Set by Keyv. */
  namespace: string | undefined;
  /** The store behind the adapter. */
  readonly client: Store;
  get(key: string): Promise<Json | undefined>;
  getMany(keys: string[]): Promise<(Json | undefined)[]>;
  has(key: string): Promise<boolean>;
  hasMany(keys: string[]): Promise<boolean[]>;
  /** The lifetime is in milliseconds. */
  set(key: string, value: unknown, ttl?: number): Promise<boolean>;
  setMany(entries: { key: string; value: unknown; ttl?: number }[]): Promise<boolean[]>;
  delete(key: string): Promise<boolean>;
  deleteMany(keys: string[]): Promise<boolean[]>;
  clear(): Promise<void>;
  iterator(): AsyncGenerator<[key: string, value: Json], void>;
}

/**
 * Makes a store a storage adapter of Keyv 5 and 6. Create one adapter per Keyv, because Keyv sets its namespace on the
 * adapter. The store stays open when Keyv disconnects.
 *
 * @example
 * ```ts
 * const cache = new Keyv({ store: keyvStorage(await openStore('sqlite:state.db')), namespace: 'cache' });
 * ```
 */
export function keyvStorage(store: Store): KeyvStorage {
  return new KeyvAdapter(store);
}

// Keyv recognizes an adapter by methods that are declared `async`.
class KeyvAdapter implements KeyvStorage {
  namespace: string | undefined = undefined;
  readonly client: Store;

  constructor(store: Store) {
    this.client = store;
  }

  async get(key: string): Promise<Json | undefined> {
    return (await this.client.get(this.#prefix + key))?.value;
  }

  async getMany(keys: string[]): Promise<(Json | undefined)[]> {
    return Promise.all(keys.map((key) => this.get(key)));
  }

  async has(key: string): Promise<boolean> {
    return (await this.get(key)) !== undefined;
  }

  async hasMany(keys: string[]): Promise<boolean[]> {
    return Promise.all(keys.map((key) => this.has(key)));
  }

  async set(key: string, value: unknown, ttl?: number): Promise<boolean> {
    const options = ttl === undefined ? {} : { ttl: ttl / 1000 };
    return (await this.client.put(this.#prefix + key, value as Json, options)) !== undefined;
  }

  async setMany(entries: { key: string; value: unknown; ttl?: number }[]): Promise<boolean[]> {
    return Promise.all(entries.map(({ key, value, ttl }) => this.set(key, value, ttl)));
  }

  async delete(key: string): Promise<boolean> {
    return this.client.delete(this.#prefix + key);
  }

  async deleteMany(keys: string[]): Promise<boolean[]> {
    return Promise.all(keys.map((key) => this.delete(key)));
  }

  async clear(): Promise<void> {
    for await (const key of keysOf(this.client, this.#prefix)) await this.client.delete(key);
  }

  async *iterator(): AsyncGenerator<[key: string, value: Json], void> {
    const prefix = this.#prefix;
    for await (const page of entryPages(this.client, prefix))
      for (const [key, { value }] of page) yield [key.slice(prefix.length), value];
  }

  get #prefix(): string {
    return `adapters/keyv/${encodeURIComponent(this.namespace ?? '')}/`;
  }
}

/**
 * Opens a store on the Redis or PostgreSQL behind a storage of unstorage or a Keyv, or returns the Valise store behind it.
 *
 * Both libraries lack compare-and-set in their interfaces, without which instances would overwrite each other's state. So the
 * store uses their client: a client of ioredis or node-redis, or a `Pool` of `pg`. `@keyv/postgres` hides its pool, so the store
 * connects to the same URL itself. The store has keys of its own, and does not see the values of the other library. Closing it
 * leaves their client open.
 *
 * @param theirs - A storage of unstorage, a Keyv, or a client of one of the three libraries.
 * @throws ValiseError `invalid-argument` if there is no such client behind it, for example for files and memory.
 *
 * @example
 * ```ts
 * const storage = createStorage({ driver: redisDriver({ url: 'redis://localhost' }) });
 * const valise = createValise({ store: await storeFrom(storage) });
 * ```
 */
export async function storeFrom(theirs: object): Promise<Store> {
  for (const client of clientsOf(theirs)) {
    if (isStore(client)) return client;
    if (isRedis(client)) {
      const { redisStore } = await import('../store/redis/index.ts');
      return redisStore(client);
    }
    if (isPool(client)) {
      const { postgresStore } = await import('../store/postgres/store.ts');
      return postgresStore(client);
    }
    if (isKeyvPostgres(client)) {
      const { postgresStore } = await import('../store/postgres/store.ts');
      const { uri, ssl } = client.opts;
      return postgresStore(uri, ssl === undefined ? {} : { pool: { ssl } });
    }
  }
  throw noCompareAndSet(nameOf(theirs));
}

/** Yields what may be a client: the object itself, and what libraries keep theirs in. */
function* clientsOf(theirs: unknown, depth = 0): Generator<object> {
  if (!isObject(theirs) || depth > 4) return;
  yield theirs;
  if (typeof theirs['getMount'] === 'function') {
    const mount: unknown = theirs['getMount']('');
    if (isObject(mount)) yield* clientsOf(mount['driver'], depth + 1);
    return;
  }
  if (typeof theirs['getInstance'] === 'function') {
    yield* clientsOf(theirs['getInstance'](), depth + 1);
    return;
  }
  for (const name of ['store', 'client', 'pool']) yield* clientsOf(theirs[name], depth + 1);
}

function hasAll(value: object, names: readonly string[]): boolean {
  return isObject(value) && names.every((name) => typeof value[name] === 'function');
}

function isRedis(client: object): client is RedisClient {
  const isIoredis = hasAll(client, ['call', 'duplicate', 'subscribe']);
  return isIoredis || hasAll(client, ['sendCommand', 'duplicate', 'subscribe', 'connect']);
}

function isPool(client: object): client is PostgresPool {
  return hasAll(client, ['connect', 'query', 'end']) && 'totalCount' in client;
}

/** Whether it is the adapter of `@keyv/postgres`. */
function isKeyvPostgres(
  client: object,
): client is { readonly opts: { readonly uri: string; readonly ssl?: unknown } } {
  const opts: unknown = isObject(client) ? client['opts'] : undefined;
  return isObject(opts) && opts['dialect'] === 'postgres' && typeof opts['uri'] === 'string';
}

/** Returns the name that a library gives its driver, for the message. */
function nameOf(theirs: object): string {
  for (const part of clientsOf(theirs)) {
    if (isObject(part) && typeof part['name'] === 'string' && part['name'] !== '') return part['name'];
  }
  return theirs.constructor?.name ?? 'This storage';
}

function noCompareAndSet(name: string): ValiseError {
  return new ValiseError(
    'invalid-argument',
    `${name} cannot be used as a store: it has no compare-and-set, so instances would overwrite each other's state.`,
    {
      next: "Use a storage on Redis or PostgreSQL, or open a store of Valise: openStore('sqlite:state.db').",
      outcome: 'not-done',
    },
  );
}
