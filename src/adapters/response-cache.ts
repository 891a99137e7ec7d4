import { type Duration, seconds } from '../duration.ts';
import { ANYTHING, BYTES, checkOptions } from '../options.ts';
import { clock } from '../store/kit/clock.ts';
import { collection, type Schema } from '../store/kit/collection.ts';
import type { Store } from '../store/types.ts';
import { COUNT, keyPart } from './limits.ts';
import { type RecordIndex, recordIndex } from './record-index.ts';

/** How many responses are cached, and for how long. */
export interface ResponseCacheOptions {
  /**
   * How long an entry is stored after it was written, at most. The client decides by `expiresAt` whether it is fresh, and still uses what it knows of the
   * tools when it is not.
   *
   * @defaultValue '24h'
   */
  readonly ttl?: Duration | undefined;
  /**
   * Most entries of `resources/read`, and most entries of all other methods together. The oldest is dropped first.
   *
   * @defaultValue 512
   */
  readonly maxEntries?: number | undefined;
  /**
   * Longest value, in UTF-16 code units. A longer one is not cached.
   *
   * @defaultValue 1048576
   */
  readonly maxBytes?: number | undefined;
}

/** What names an entry: `CacheKey` of the MCP SDK. */
export interface CacheKey {
  readonly method: string;
  readonly params?: string;
  readonly partition?: string;
}

/** A cached response: `CacheEntry` of the MCP SDK. */
export interface CacheEntry {
  readonly value: string;
  /** Rises with every write. */
  readonly stamp: number;
  readonly expiresAt?: number;
  readonly scope?: 'public' | 'private';
}

/** `ResponseCacheStore` of the MCP SDK, version 2. */
export interface ResponseCache {
  get(key: CacheKey): Promise<CacheEntry | undefined>;
  /** Returns the stamp of the entry. */
  set(key: CacheKey, entry: Omit<CacheEntry, 'stamp'>): Promise<number>;
  delete(key: CacheKey): Promise<void>;
  /** Deletes all entries of a method. */
  evict(method: string): Promise<void>;
  clear(): Promise<void>;
}

const SCHEMA: Schema<CacheEntry> = {
  kind: 'cached response',
  version: 1,
  read({ value, stamp, expiresAt, scope }) {
    if (typeof value !== 'string' || typeof stamp !== 'number') return undefined;
    return {
      value,
      stamp,
      ...(typeof expiresAt === 'number' && { expiresAt }),
      ...((scope === 'public' || scope === 'private') && { scope }),
    };
  },
};

const PREFIX = 'adapters/responses/';

/** The one method with as many entries as there are URIs: they must not push out the lists. */
const READ = 'resources/read';

/**
 * Caches responses for clients on SDK version 2, for all processes that share the store. Entries of different servers and
 * principals are kept apart by the `partition` that the client gives.
 *
 * @throws ValiseError `bad-option` if an option is not what it takes.
 *
 * @example
 * ```ts
 * const client = new Client(info, { responseCacheStore: responseCache(store), cachePartition: userId });
 * ```
 */
export function responseCache(store: Store, options: ResponseCacheOptions = {}): ResponseCache {
  checkOptions('responseCache', options, { ttl: ANYTHING, maxEntries: COUNT, maxBytes: BYTES });
  const { maxEntries = 512, maxBytes = 1_048_576 } = options;
  const ttl = seconds(options.ttl ?? '24h');
  const entries = collection(store, `${PREFIX}entry/`, SCHEMA);
  const indexOf = (name: string) => recordIndex(store, `${PREFIX}${name}`, { max: maxEntries, ttl });
  const reads = indexOf('reads');
  const lists = indexOf('lists');
  const ofMethod = (method: string): RecordIndex => (method === READ ? reads : lists);
  const drop = async (index: RecordIndex, prefix: string): Promise<void> => {
    const ids = (await index.ids()).filter((id) => id.startsWith(prefix));
    await Promise.all(ids.map((id) => entries.delete(id)));
    await index.remove(ids);
  };
  let last = 0;

  return {
    get: async (key) => (await entries.get(idOf(key)))?.value,
    async set(key, { value, expiresAt, scope }) {
      const id = idOf(key);
      // Above all earlier stamps of this process, and by the time in it above those of others, also after a deletion.
      let stamp = Math.max(last + 1, clock.now() * 1000 + Math.floor(Math.random() * 1000));
      if (value.length > maxBytes) {
        await entries.delete(id);
        return (last = stamp);
      }
      for (const oldest of await ofMethod(key.method).add(id)) await entries.delete(oldest);
      const facts = { ...(expiresAt !== undefined && { expiresAt }), ...(scope !== undefined && { scope }) };
      await entries.update(
        id,
        (found) => {
          stamp = Math.max(stamp, last + 1, (found?.value?.stamp ?? 0) + 1);
          return { value, stamp, ...facts };
        },
        { ttl },
      );
      return (last = Math.max(last, stamp));
    },
    async delete(key) {
      const id = idOf(key);
      if (await entries.delete(id)) await ofMethod(key.method).remove([id]);
    },
    evict: (method) => drop(ofMethod(method), `${keyPart(method)}/`),
    async clear() {
      await drop(reads, '');
      await drop(lists, '');
    },
  };
}

function idOf({ method, params = '', partition = '' }: CacheKey): string {
  return `${keyPart(method)}/${keyPart(JSON.stringify([params, partition]))}`;
}
