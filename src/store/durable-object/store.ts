import { type Duration, seconds } from '../../core/duration.ts';
import { ValiseError } from '../../core/errors.ts';
import type { Json } from '../../core/json.ts';
import { checkKey, nextVersion, parseValue, toLimit, toMilliseconds, toText, Work } from '../driver.ts';
import { withTimeout } from '../kit/clock.ts';
import { mergedPage } from '../page.ts';
import { attempts, endOfPrefix, notDone, remoteError, timeoutError } from '../remote.ts';
import type { Entry, KeyPage, Lease, ListOptions, PutOptions, Store } from '../types.ts';
import type { Call, Found, Reply } from './call.ts';

export { type DurableObjectState, ValiseStoreObject } from './object.ts';

/** The binding of a Durable Object class (`env.STORE`), as far as it is used here. */
export interface DurableObjectBinding {
  idFromName(name: string): unknown;
  get(id: unknown): {
    fetch(url: string, init: { method: string; body: string }): Promise<{ json(): Promise<unknown> }>;
  };
}

/** Options of {@link durableObjectStore}. */
export interface DurableObjectStoreOptions {
  /** The name of the object. Stores with the same name share their entries. @defaultValue `'valise'` */
  readonly name?: string;
  /**
   * Over how many objects the entries are spread, for more writes than one object can serve (some hundred per second).
   * A listing asks all of them. Choose it once: with another number, entries are not found. @defaultValue 1
   */
  readonly shards?: number;
  /** How long a call waits before it fails with `store-unavailable`. @defaultValue 10 s */
  readonly timeout?: Duration;
}

/**
 * Creates a store on Cloudflare Durable Objects, for Workers. Everything that Valise keeps can be in it, sessions
 * included. Export {@link ValiseStoreObject} from the Worker and bind it.
 *
 * @example
 * ```ts
 * import { env } from 'cloudflare:workers';
 * import { createValise } from 'mcp-valise/server';
 * import { durableObjectStore } from 'mcp-valise/store/durable-object';
 *
 * export { ValiseStoreObject } from 'mcp-valise/store/durable-object';
 *
 * const valise = createValise({ name: 'shop', store: durableObjectStore(env.STORE) });
 * ```
 */
export function durableObjectStore(
  binding: DurableObjectBinding,
  options: DurableObjectStoreOptions = {},
): Store {
  if (typeof binding?.idFromName !== 'function' || typeof binding.get !== 'function')
    throw new ValiseError(
      'invalid-argument',
      'durableObjectStore needs the binding of a Durable Object class.',
      {
        next: 'Bind ValiseStoreObject in the configuration of the Worker, and pass env.STORE.',
      },
    );
  return new DurableObjectStore(binding, options);
}

class DurableObjectStore implements Store {
  readonly #binding: DurableObjectBinding;
  readonly #objects: readonly string[];
  readonly #timeout: number;
  readonly #work = new Work();

  constructor(
    binding: DurableObjectBinding,
    { name = 'valise', shards = 1, timeout = 10 }: DurableObjectStoreOptions,
  ) {
    if (!Number.isInteger(shards) || shards < 1 || shards > 1000)
      throw new ValiseError(
        'store-invalid',
        `Invalid value for \`shards\`: expected 1 to 1,000, got ${shards}.`,
      );
    this.#binding = binding;
    this.#objects = Array.from({ length: shards }, (_, shard) =>
      shards === 1 ? name : `${name}/${shard}/${shards}`,
    );
    this.#timeout = seconds(timeout) * 1000;
  }

  get(key: string): Promise<Entry | undefined> {
    return this.#work.run(async () => {
      checkKey(key);
      const found = await this.#ask<Found | null>(key, {
        call: 'get',
        key,
      });
      if (!found) return undefined;
      const { text, version, expires } = found;
      const value = parseValue(key, text);
      return expires === null ? { value, version } : { value, version, expiresAt: expires };
    });
  }

  put(key: string, value: Json, options: PutOptions = {}): Promise<string | undefined> {
    return this.#work.run(async () => {
      checkKey(key);
      const text = toText(key, value);
      const { ttl, ifVersion, ifAbsent } = options;
      const version = nextVersion();
      const isWritten = await this.#ask<boolean>(key, {
        call: 'put',
        key,
        text,
        version,
        ...(ttl !== undefined && { ttl: toMilliseconds(ttl) }),
        ...(ifVersion !== undefined && { ifVersion }),
        ...(ifAbsent && { ifAbsent }),
      });
      return isWritten ? version : undefined;
    });
  }

  delete(key: string, { ifVersion }: { readonly ifVersion?: string } = {}): Promise<boolean> {
    return this.#work.run(async () => {
      checkKey(key);
      return this.#ask<boolean>(
        key,
        { call: 'delete', key, ...(ifVersion !== undefined && { ifVersion }) },
        false,
      );
    });
  }

  list(prefix: string, { cursor, limit }: ListOptions = {}): Promise<KeyPage> {
    return this.#work.run(async () => {
      const size = toLimit(limit);
      const to = endOfPrefix(prefix);
      const isWithin = cursor !== undefined && Buffer.compare(Buffer.from(cursor), Buffer.from(prefix)) >= 0;
      const start = isWithin ? `>${cursor}` : `=${prefix}`;
      return mergedPage(this.#objects, start, size, async (object, from, count) => {
        const keys = await this.#send<string[]>(
          object,
          {
            call: 'list',
            from: from.slice(1),
            after: from.startsWith('>'),
            ...(to !== undefined && { to }),
            limit: count,
          },
          true,
        );
        return { keys, next: keys.length < count ? undefined : `>${keys.at(-1)}` };
      });
    });
  }

  lease(key: string, ttl: number): Promise<Lease | undefined> {
    return this.#work.run(async () => {
      checkKey(key);
      const holder = nextVersion();
      const fence = await this.#ask<number | null>(key, {
        call: 'lease',
        key,
        ttl: toMilliseconds(ttl),
        holder,
      });
      if (fence === null) return undefined;
      return {
        fence,
        renew: (again: number) =>
          this.#work.run(() =>
            this.#ask<boolean>(key, { call: 'renew', key, fence, holder, ttl: toMilliseconds(again) }),
          ),
        release: async () => {
          // A lease that cannot be released expires by itself, so the work done under it does not fail.
          await this.#work.run(() => this.#ask(key, { call: 'release', key, fence, holder })).catch(() => {});
        },
      };
    });
  }

  close(): Promise<void> {
    return this.#work.close(() => {});
  }

  #ask<T>(key: string, call: Call, repeatable = true): Promise<T> {
    return this.#send(this.#objects[hashOf(key) % this.#objects.length] as string, call, repeatable);
  }

  /** Sends a call to an object, and again after a failure if that is safe. */
  #send<T>(object: string, call: Call, repeatable: boolean): Promise<T> {
    const retries = {
      timeout: this.#timeout,
      repeatable,
      failureOf: () => ({ code: 'store-unavailable', outcome: 'unknown' }) as const,
      errorOf: (failure: Parameters<typeof remoteError>[1], error: unknown) =>
        remoteError(SERVER, failure, error),
    };
    return attempts(retries, async (deadline, mayHaveRun) => {
      const { result, error } = await withTimeout(
        this.#fetch(object, call),
        deadline - performance.now(),
        () => {
          throw timeoutError(SERVER, this.#timeout, 'unknown');
        },
      );
      if (error)
        throw new ValiseError(error.code, `${SERVER} failed: ${error.what}`, {
          outcome: 'not-done',
          ...(error.next !== undefined && { next: error.next }),
        });
      // An earlier attempt may have succeeded and been overwritten since.
      if (result === false && mayHaveRun && call.call === 'put')
        throw remoteError(SERVER, { code: 'store-unavailable', outcome: 'unknown' }, 'a reply was lost');
      return result as T;
    });
  }

  async #fetch(object: string, call: Call): Promise<Reply> {
    // The stub belongs to the current request of the Worker, and is broken after a failure.
    const stub = this.#binding.get(this.#binding.idFromName(object));
    try {
      const response = await stub.fetch('https://valise.invalid/', {
        method: 'POST',
        body: JSON.stringify(call),
      });
      return (await response.json()) as Reply;
    } catch (error) {
      // An overloaded object has not run the call, and more of them would not help.
      if ((error as { overloaded?: unknown } | null)?.overloaded === true)
        throw remoteError(
          SERVER,
          notDone('store-unavailable', 'Spread the entries over more objects (shards).'),
          error,
        );
      throw error;
    }
  }
}

const SERVER = 'The Durable Object';

/** Returns a number that spreads keys evenly (FNV-1a). */
function hashOf(key: string): number {
  let hash = 0x811c9dc5;
  for (const byte of Buffer.from(key)) hash = Math.imul(hash ^ byte, 0x01000193);
  return hash >>> 0;
}
