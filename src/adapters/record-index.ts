import type { ValiseError } from '../errors.ts';
import { clock } from '../store/kit/clock.ts';
import { collection, type Schema } from '../store/kit/collection.ts';
import type { Store } from '../store/types.ts';

/** A record in an index: its id, and when it was last added, in milliseconds since 1970. */
type Indexed = readonly [id: string, addedAt: number];

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
  /** Adds or renews a record. Returns the ids that no longer fit, oldest first; the caller deletes their records. */
  add(id: string): Promise<readonly string[]>;
  remove(ids: readonly string[]): Promise<void>;
  /** Returns all ids, oldest first. Their records may have expired already. */
  ids(): Promise<readonly string[]>;
}

/** The limits of an index, and its behavior at the limit. */
export interface RecordIndexOptions {
  readonly max: number;
  /** The lifetime of the records, in seconds. */
  readonly ttl: number;
  /** Creates the error for a new record that does not fit. By default, the oldest record is evicted instead. */
  readonly full?: () => ValiseError;
}

export function recordIndex(store: Store, key: string, { max, ttl, full }: RecordIndexOptions): RecordIndex {
  const indexes = collection(store, '', SCHEMA);
  const living = (ids: readonly Indexed[] = []) => {
    const since = clock.now() - ttl * 1000;
    return ids.filter(([, addedAt]) => addedAt > since);
  };
  return {
    async add(id) {
      let evicted: readonly string[] = [];
      const change = (found: { readonly value: IndexRecord | undefined } | undefined): IndexRecord => {
        const others = living(found?.value?.ids).filter(([other]) => other !== id);
        const isNew = !found?.value?.ids.some(([other]) => other === id);
        if (full && isNew && others.length >= max) throw full();
        const ids = [...others, [id, clock.now()] as const];
        evicted = ids.slice(0, -max).map(([other]) => other);
        return { ids: ids.slice(-max) };
      };
      await indexes.update(key, change, { ttl });
      return evicted;
    },
    async remove(gone) {
      await indexes.update(
        key,
        (found) => {
          if (!found?.value) return undefined;
          const ids = found.value.ids.filter(([id]) => !gone.includes(id));
          return ids.length === found.value.ids.length ? undefined : ids.length === 0 ? null : { ids };
        },
        { ttl },
      );
    },
    async ids() {
      return living((await indexes.get(key))?.value?.ids).map(([id]) => id);
    },
  };
}

function isIndexed(value: unknown): value is Indexed {
  return Array.isArray(value) && typeof value[0] === 'string' && typeof value[1] === 'number';
}
