import { ValiseError } from '../errors.ts';
import type { Json } from '../json.ts';
import { clock } from '../store/kit/clock.ts';
import { collection, type Schema } from '../store/kit/collection.ts';
import type { Store } from '../store/types.ts';
import { keyPart } from './limits.ts';
import type { RecordIndex } from './record-index.ts';

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

const SCHEMA: Schema<ValueRecord> = {
  kind: 'value of a framework',
  version: 1,
  read: ({ value, idle }) =>
    value === undefined ? undefined : { value: value as Json, ...(idle === true && { idle }) },
};

export function values(store: Store, prefix: string, options: ValuesOptions): Values {
  const { kind, ttl: idleTimeout, maxBytes, indexOf } = options;
  const records = collection(store, prefix, SCHEMA, { unlisted: true });
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
