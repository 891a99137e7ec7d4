import { ValiseError } from '../../core/errors.ts';
import type { Json } from '../../core/json.ts';
import { checkKey, nextVersion, parseValue, toMilliseconds, toText } from '../driver.ts';
import { notDone, remoteError } from '../remote.ts';
import type { Entry, PutOptions } from '../types.ts';

/** The binding of a KV namespace (`env.KV`), as far as it is used here. */
export interface WorkersKvBinding {
  getWithMetadata(key: string, type: 'text'): Promise<{ value: string | null; metadata: unknown }>;
  put(key: string, value: string, options: { expirationTtl?: number; metadata: unknown }): Promise<void>;
  delete(key: string): Promise<void>;
}

/** Options of {@link workersKvStore}. */
export interface WorkersKvStoreOptions {
  /** The prefix of all keys in the namespace. @defaultValue `'valise'` */
  readonly namespace?: string;
}

/** What {@link workersKvStore} returns: values by key. It is not a `Store`: it has no conditions, leases or lists. */
export interface WorkersKvStore {
  /** Returns the entry under `key`, or undefined if there is none, it has expired, or it has not arrived here yet. */
  get(key: string): Promise<Entry | undefined>;
  /** Writes `value`. The last write wins. Throws `invalid-argument` if `options` has a condition. */
  put(key: string, value: Json, options?: Pick<PutOptions, 'ttl'>): Promise<string>;
  /** Deletes the entry. Other locations may return it for another minute. */
  delete(key: string): Promise<void>;
}

/** KV does not accept shorter lifetimes, in seconds. */
const LEAST_TTL = 60;
const MAX_KEY_BYTES = 512;

/**
 * Keeps values in Cloudflare Workers KV, for `spillStore` of `createValise`: large session states, which are written
 * once under a new key and then only read.
 *
 * KV has no compare-and-set, and a location may answer from its cache for a minute. So it cannot be the `store` of a server,
 * which would lose changes of sessions and answers to questions: TypeScript and `createValise` reject it there.
 *
 * @example
 * ```ts
 * import { env } from 'cloudflare:workers';
 *
 * const valise = createValise({
 *   name: 'shop',
 *   store: durableObjectStore(env.STORE),
 *   spillStore: workersKvStore(env.KV),
 *   sessions: {},
 * });
 * ```
 */
export function workersKvStore(
  binding: WorkersKvBinding,
  { namespace = 'valise' }: WorkersKvStoreOptions = {},
): WorkersKvStore {
  if (typeof binding?.getWithMetadata !== 'function')
    throw new ValiseError('invalid-argument', 'workersKvStore needs the binding of a KV namespace.', {
      next: 'Bind a KV namespace in the configuration of the Worker, and pass env.KV.',
    });
  const nameOf = (key: string): string => {
    checkKey(key);
    const name = `${namespace}:${key}`;
    if (Buffer.byteLength(name) <= MAX_KEY_BYTES) return name;
    throw new ValiseError('store-invalid', `A key of Workers KV has at most ${MAX_KEY_BYTES} bytes.`, {
      next: 'Use a shorter key or namespace.',
    });
  };
  return {
    async get(key) {
      const name = nameOf(key);
      const { value, metadata } = await binding.getWithMetadata(name, 'text').catch(failed);
      if (value === null) return undefined;
      const { version, expiresAt } = (metadata ?? {}) as { version?: string; expiresAt?: number };
      if (expiresAt !== undefined && expiresAt <= Date.now()) return undefined;
      const entry = { value: parseValue(key, value), version: version ?? '' };
      return expiresAt === undefined ? entry : { ...entry, expiresAt };
    },
    async put(key, value, { ttl, ...others }: PutOptions = {}) {
      if (others.ifVersion !== undefined || others.ifAbsent) throw noConditions();
      const name = nameOf(key);
      const text = toText(key, value);
      const version = nextVersion();
      const ms = ttl === undefined ? undefined : toMilliseconds(ttl);
      await binding
        .put(name, text, {
          ...(ms !== undefined && { expirationTtl: Math.max(LEAST_TTL, Math.ceil(ms / 1000)) }),
          metadata: { version, ...(ms !== undefined && { expiresAt: Date.now() + ms }) },
        })
        .catch(failed);
      return version;
    },
    async delete(key) {
      await binding.delete(nameOf(key)).catch(failed);
    },
  };
}

function failed(error: unknown): never {
  const isTooOften = error instanceof Error && /\b429\b|Too Many Requests/i.test(error.message);
  const failure = isTooOften
    ? notDone('store-unavailable', 'KV accepts one write per second for each key.')
    : ({ code: 'store-unavailable', outcome: 'unknown' } as const);
  throw remoteError('Workers KV', failure, error);
}

function noConditions(): ValiseError {
  return new ValiseError(
    'invalid-argument',
    'Workers KV has no compare-and-set, so it cannot write on a condition.',
    {
      next: 'Use durableObjectStore or upstashStore for what several requests change.',
      outcome: 'not-done',
    },
  );
}
