import type { ValiseError } from '../errors.ts';
import { isObject, type Json } from '../json.ts';
import { sha256 } from '../sha256.ts';
import { clock } from '../store/kit/clock.ts';
import { collection, type Schema } from '../store/kit/collection.ts';
import { secondsUntil } from '../store/kit/update.ts';
import type { Store } from '../store/types.ts';

/** A record in an index: its id, and when it expires, in milliseconds since 1970. */
type Indexed = readonly [id: string, expiresAt: number];

interface IndexRecord {
  readonly ids: readonly Indexed[];
}

const SCHEMA: Schema<IndexRecord> = {
  kind: 'index of records',
  version: 1,
  read: ({ ids }) => (Array.isArray(ids) && ids.every(isIndexed) ? { ids } : undefined),
};

/** Limits the number of records under one key, across instances. */
export interface RecordIndex {
  /**
   * Adds or renews a record. Its lifetime in seconds defaults to that of the index. The caller deletes the records that
   * no longer fit.
   */
  add(id: string, ttl?: number): Promise<Added>;
  remove(ids: readonly string[]): Promise<void>;
  /** Returns all ids, oldest first. Their records may have expired already. */
  ids(): Promise<readonly string[]>;
}

/** What adding a record did to the index. */
export interface Added {
  /** The ids that no longer fit, oldest first. */
  readonly evicted: readonly string[];
  /** Whether the index had no unexpired record before. */
  readonly isFirst: boolean;
}

/** The limits of an index, and its behavior at the limit. */
export interface RecordIndexOptions {
  readonly max: number;
  /** The lifetime of the records, in seconds. */
  readonly ttl: number;
  /** Creates the error for a new record that does not fit. By default, the oldest record is evicted instead. */
  readonly full?: () => ValiseError;
}

/** The maximum number of ids in one entry of a sharded index. */
const SHARD = 256;

/**
 * An index for many records, over several entries, so that adding one does not rewrite all ids. A record is evicted or
 * rejected when its own shard is full, which happens shortly before the whole index is.
 */
export function shardedIndex(store: Store, key: string, options: RecordIndexOptions): RecordIndex {
  const count = Math.ceil(options.max / SHARD);
  const max = Math.ceil(options.max / count);
  const shards = Array.from({ length: count }, (_, at) =>
    recordIndex(store, `${key}/${at}`, { ...options, max }),
  );
  const shardOf = (id: string) => Number.parseInt(sha256(id, 'hex').slice(0, 8), 16) % count;
  return {
    add: (id, ttl) => (shards[shardOf(id)] as RecordIndex).add(id, ttl),
    async remove(gone) {
      for (const [at, shard] of shards.entries()) {
        const ids = gone.filter((id) => shardOf(id) === at);
        if (ids.length > 0) await shard.remove(ids);
      }
    },
    ids: async () => (await Promise.all(shards.map((shard) => shard.ids()))).flat(),
  };
}

export function recordIndex(store: Store, key: string, { max, ttl, full }: RecordIndexOptions): RecordIndex {
  const indexes = collection(store, '', SCHEMA);
  const living = (ids: readonly Indexed[] = []) => {
    const now = clock.now();
    return ids.filter(([, expiresAt]) => expiresAt > now);
  };
  return {
    async add(id, lifetime = ttl) {
      let evicted: readonly string[] = [];
      let isFirst = false;
      const change = (found: { readonly value: IndexRecord | undefined } | undefined): IndexRecord => {
        const all = living(found?.value?.ids);
        isFirst = all.length === 0;
        const others = all.filter(([other]) => other !== id);
        const isNew = !found?.value?.ids.some(([other]) => other === id);
        if (full && isNew && others.length >= max) throw full();
        const ids = [...others, [id, clock.now() + lifetime * 1000] as const];
        evicted = ids.slice(0, -max).map(([other]) => other);
        return { ids: ids.slice(-max) };
      };
      await indexes.update(key, change, { ttl: lifetimeOf });
      return { evicted, isFirst };
    },
    async remove(gone) {
      await indexes.update(
        key,
        (found) => {
          if (!found?.value) return undefined;
          const ids = found.value.ids.filter(([id]) => !gone.includes(id));
          if (ids.length === found.value.ids.length) return undefined;
          return ids.length === 0 ? null : { ids };
        },
        { ttl: lifetimeOf },
      );
    },
    async ids() {
      return living((await indexes.get(key))?.value?.ids).map(([id]) => id);
    },
  };
}

/** An index lives as long as the last of its records. */
function lifetimeOf(index: Json): number {
  const { ids = [] } = isObject(index) ? (SCHEMA.read(index) ?? {}) : {};
  return secondsUntil(Math.max(...ids.map(([, expiresAt]) => expiresAt)));
}

function isIndexed(value: unknown): value is Indexed {
  return Array.isArray(value) && typeof value[0] === 'string' && typeof value[1] === 'number';
}
