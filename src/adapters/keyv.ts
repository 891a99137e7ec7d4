import type { Json } from '../json.ts';
import { entryPages, keysOf } from '../store/page.ts';
import type { Store } from '../store/types.ts';

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
  return new Adapter(store);
}

// Keyv recognizes an adapter by methods that are declared `async`.
class Adapter implements KeyvStorage {
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
