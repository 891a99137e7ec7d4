import { ValiseError } from '../core/errors.ts';
import { isObject, type Json } from '../core/json.ts';
import type { Taken } from '../core/options.ts';
import { sha256 } from '../core/sha256.ts';
import { clock } from '../store/kit/clock.ts';
import { collection, type Schema } from '../store/kit/collection.ts';
import { secondsUntil } from '../store/kit/update.ts';
import type { Store } from '../store/types.ts';

/** An option that limits a number of items. */
export const COUNT: Taken = [
  'a whole number, at least 1',
  (value) => Number.isSafeInteger(value) && (value as number) >= 1,
];

/** An option that separates the records of one owner from those of others. */
export const NAME: Taken = ['text that is not empty', (value) => typeof value === 'string' && value !== ''];

/** Returns an option without which the records of all owners would be merged. Throws `invalid-argument` if it is undefined. */
export function requireOption(adapter: string, option: string, value: string | undefined): string {
  if (value !== undefined) return value;
  throw new ValiseError('invalid-argument', `${adapter} was given no ${option}.`, {
    next: `Give ${NAME[0]}.`,
  });
}

/** Returns a fixed-length key part for text that others choose. The text itself does not appear in the store. */
export function keyPart(text: string): string {
  return sha256(text).slice(0, 32);
}

/** A record in an index: its id, and when it expires, in milliseconds since 1970. */
type Indexed = readonly [id: string, expiresAt: number];

interface IndexRecord {
  readonly ids: readonly Indexed[];
}

const INDEX: Schema<IndexRecord> = {
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
  const indexes = collection(store, '', INDEX);
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
  const { ids = [] } = isObject(index) ? (INDEX.read(index) ?? {}) : {};
  return secondsUntil(Math.max(...ids.map(([, expiresAt]) => expiresAt)));
}

function isIndexed(value: unknown): value is Indexed {
  return Array.isArray(value) && typeof value[0] === 'string' && typeof value[1] === 'number';
}

/** Values under keys that a framework chooses. */
export interface Values {
  get(key: string): Promise<Json | undefined>;
  /** Writes a value. Without a lifetime in seconds, it is kept for the idle timeout, and reading it counts as use. */
  set(key: string, value: unknown, ttl?: number): Promise<void>;
  /** Replaces a value, atomically. `change` throws if there is nothing to replace. */
  update(key: string, change: (value: Json | undefined) => Json): Promise<void>;
  delete(key: string): Promise<void>;
  /** Reads and deletes a value. Of several callers at any instances, one gets it. */
  take(key: string): Promise<Json | undefined>;
}

export interface ValuesOptions {
  /** What one value is called in messages, for example "token". */
  readonly kind: string;
  /** The idle timeout of values without a lifetime of their own, in seconds. */
  readonly ttl: number;
  readonly maxBytes: number;
  /** Counts the values. Evicted ids are deleted. */
  readonly indexOf?: (key: string) => RecordIndex;
}

interface ValueRecord {
  readonly value: Json;
  /** Whether the value expires when it is not used, and not at a fixed time. */
  readonly idle?: true;
}

const VALUE: Schema<ValueRecord> = {
  kind: 'value of a framework',
  version: 1,
  read: ({ value, idle }) =>
    value === undefined ? undefined : { value: value as Json, ...(idle === true && { idle }) },
};

export function values(store: Store, prefix: string, options: ValuesOptions): Values {
  const { kind, ttl: idleTimeout, maxBytes, indexOf } = options;
  const records = collection(store, prefix, VALUE, { unlisted: true });
  const checked = (value: unknown): Json => {
    const text = JSON.stringify(value);
    if (text === undefined || Buffer.byteLength(text) > maxBytes) throw badValue(kind, maxBytes);
    return JSON.parse(text) as Json;
  };
  return {
    async get(key) {
      const id = keyPart(key);
      const found = await records.get(id);
      const left = (found?.expiresAt ?? Number.POSITIVE_INFINITY) - clock.now();
      // A value is renewed in the second half of its lifetime, so that most reads do not write.
      if (found?.value?.idle && left < idleTimeout * 500) {
        await indexOf?.(key).add(id, idleTimeout);
        await records.put(id, found.value, { ttl: idleTimeout, ifVersion: found.version, durable: true });
      }
      return found?.value?.value;
    },
    async set(key, value, ttl) {
      const record = { value: checked(value), ...(ttl === undefined && { idle: true as const }) };
      const id = keyPart(key);
      const lifetime = ttl ?? idleTimeout;
      const { evicted } = (await indexOf?.(key).add(id, lifetime)) ?? { evicted: [] };
      await Promise.all(evicted.map((oldest) => records.delete(oldest)));
      await records.put(id, record, { ttl: lifetime, durable: true });
    },
    async update(key, change) {
      let left: number | undefined;
      await records.update(
        keyPart(key),
        (found) => {
          left = found?.expiresAt && Math.max(1, (found.expiresAt - clock.now()) / 1000);
          return { ...found?.value, value: checked(change(found?.value?.value)) };
        },
        { ttl: () => left ?? idleTimeout, durable: true },
      );
    },
    async delete(key) {
      const id = keyPart(key);
      if (await records.delete(id)) await indexOf?.(key).remove([id]);
    },
    async take(key) {
      const id = keyPart(key);
      for (let found = await records.get(id); found; found = await records.get(id)) {
        // Another caller took or replaced the value since it was read.
        if (!(await records.delete(id, { ifVersion: found.version }))) continue;
        await indexOf?.(key).remove([id]);
        return found.value?.value;
      }
      return undefined;
    },
  };
}

function badValue(kind: string, max: number): ValiseError {
  return new ValiseError('too-large', `The ${kind} was not stored: it is over ${max} bytes, or no JSON.`, {
    next: 'Store less, or raise maxBytes.',
    outcome: 'not-done',
  });
}
