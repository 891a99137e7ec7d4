import { type Duration, seconds } from '../core/duration.ts';
import { ANYTHING, BYTES, checkOptions } from '../core/options.ts';
import { clock } from '../store/kit/clock.ts';
import { collection, type Schema } from '../store/kit/collection.ts';
import type { Store } from '../store/types.ts';
import { COUNT, keyPart, type RecordIndex, recordIndex } from './records.ts';

/** Limits on the number of cached responses and how long they are stored. */
export interface ResponseCacheOptions {
  /**
   * The maximum time an entry is stored after it was written. The client uses `expiresAt` to decide whether it is
   * fresh, and still uses its knowledge of the tools when it is not.
   *
   * @defaultValue '24h'
   */
  readonly ttl?: Duration | undefined;
  /**
   * The maximum number of `resources/read` entries, and of entries of all other methods together. The oldest is dropped
   * first.
   *
   * @defaultValue 512
   */
  readonly maxEntries?: number | undefined;
  /**
   * The maximum size of a value, in bytes. Larger values are not cached.
   *
   * @defaultValue 1048576
   */
  readonly maxBytes?: number | undefined;
}

/** The key of an entry: `CacheKey` of the MCP SDK. */
export interface CacheKey {
  readonly method: string;
  readonly params?: string;
  readonly partition?: string;
}

/** A cached response: `CacheEntry` of the MCP SDK. */
export interface CacheEntry {
  readonly value: string;
  /** Increases with every write. */
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

/** The only method with one entry per URI. These entries must not evict the lists. */
const READ = 'resources/read';

/**
 * Caches responses for clients on SDK version 2, for all processes that share the store. The client's `partition`
 * separates the entries of different servers and principals.
 *
 * @throws ValiseError `invalid-argument` if an option is invalid.
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
  const entries = collection(store, `${PREFIX}entry/`, SCHEMA, { unlisted: true });
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
      // The stamp exceeds all earlier stamps of this process and, because it contains the time, those of others, even
      // after a deletion.
      let stamp = Math.max(last + 1, clock.now() * 1000 + Math.floor(Math.random() * 1000));
      if (Buffer.byteLength(value) > maxBytes) {
        await entries.delete(id);
        return (last = stamp);
      }
      const { evicted } = await ofMethod(key.method).add(id);
      await Promise.all(evicted.map((oldest) => entries.delete(oldest)));
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
