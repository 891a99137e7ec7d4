import { type Duration, seconds } from '../duration.ts';
import { ValiseError } from '../errors.ts';
import type { Json } from '../json.ts';
import { checkKey, toLimit, toMilliseconds, toText } from './check.ts';
import { parseEntry } from './entry-text.ts';
import type { RedisClient } from './redis-client.ts';
import { RedisConnection } from './redis-connection.ts';
import { DELETE, LEASE, LIST, PUT, PUT_FOR, RELEASE, RENEW } from './redis-scripts.ts';
import { endOfPrefix, isVersion } from './remote.ts';
import type { Entry, KeyPage, Lease, ListOptions, PutOptions, Store } from './types.ts';
import { nextVersion } from './version.ts';
import { Work } from './work.ts';

export { openRedisBus, type RedisBusOptions } from './bus-redis.ts';
export type { IoredisClient, NodeRedisClient, RedisClient } from './redis-client.ts';

/** How a Redis store behaves. */
export interface RedisStoreOptions {
  /** What all its keys in Redis start with, in braces, so that a Redis Cluster keeps them together; `valise` unless told. */
  readonly namespace?: string;
  /** How long a call waits, also for a server that is away, before it fails with `store-unavailable`; 10 s unless told. */
  readonly timeout?: Duration;
}

/**
 * Opens a store on Redis or Valkey: `redis://user:password@host:6379/0`, `rediss://…` over TLS, or a client of your own
 * (ioredis 5 or 6, also a Cluster; node-redis), which stays yours to close. Needs Redis 5 or later.
 *
 * A Redis Cluster keeps one namespace on one shard. A server that loses data when it restarts loses Valise's too:
 * turn persistence on where that matters.
 *
 * @example
 * ```ts
 * import { openRedisStore } from 'mcp-valise/store/redis';
 *
 * const store = await openRedisStore('redis://127.0.0.1:6379');
 * await store.put('cart/7', { items: ['tea'] }, { ttl: 3600 });
 * ```
 */
export async function openRedisStore(
  source: string | RedisClient,
  options: RedisStoreOptions = {},
): Promise<Store> {
  const { namespace = 'valise', timeout = 10 } = options;
  if (!/^[^{}]{1,200}$/.test(namespace)) {
    throw new ValiseError('store-bad-namespace', `${JSON.stringify(namespace)} cannot be a namespace.`, {
      next: 'Use 1 to 200 characters without braces.',
    });
  }
  return new RedisStore(await RedisConnection.open(source, seconds(timeout) * 1000), namespace);
}

/** How many keys one script looks at: it keeps everyone else waiting while it runs. */
const BATCH = 1000;

class RedisStore implements Store {
  readonly #connection: RedisConnection;
  readonly #work = new Work();
  readonly #set: string;
  readonly #ends: string;
  readonly #fence: string;

  constructor(connection: RedisConnection, namespace: string) {
    this.#connection = connection;
    this.#set = `{${namespace}}:entry`;
    this.#ends = `{${namespace}}:ends`;
    this.#fence = `{${namespace}}:fence`;
  }

  get(key: string): Promise<Entry | undefined> {
    return this.#work.run(
      () => {
        checkKey(key);
        return this.#connection.command(true, 'get', `${this.#set}:${key}`);
      },
      (text) => (typeof text === 'string' ? parseEntry(key, text) : undefined),
    );
  }

  put(key: string, value: Json, { ttl, ifVersion, ifAbsent }: PutOptions = {}): Promise<string | undefined> {
    const version = nextVersion();
    return this.#work.run(
      () => {
        checkKey(key);
        const json = toText(key, value);
        const life = ttl === undefined ? undefined : String(toMilliseconds(ttl));
        if (ifVersion !== undefined && (ifAbsent || !isVersion(ifVersion))) return Promise.resolve(0);
        const condition = ifAbsent ? 'absent' : ifVersion === undefined ? '' : `${ifVersion} `;
        const name = `${this.#set}:${key}`;
        return life === undefined
          ? this.#connection.script(PUT, ['2', name, this.#set, `${version} 0 ${json}`, condition])
          : this.#connection.script(PUT_FOR, [
              '3',
              name,
              this.#set,
              this.#ends,
              `${version} `,
              condition,
              ` ${json}`,
              life,
            ]);
      },
      (written) => (Number(written) === 1 ? version : undefined),
    );
  }

  delete(key: string, { ifVersion }: { readonly ifVersion?: string } = {}): Promise<boolean> {
    return this.#work.run(async () => {
      checkKey(key);
      if (ifVersion !== undefined && !isVersion(ifVersion)) return false;
      const condition = ifVersion === undefined ? '' : `${ifVersion} `;
      const args = ['3', `${this.#set}:${key}`, this.#set, this.#ends, condition];
      return Number(await this.#connection.script(DELETE, args)) === 1;
    });
  }

  list(prefix: string, options: ListOptions = {}): Promise<KeyPage> {
    return this.#work.run(async () => {
      const limit = toLimit(options.limit);
      const end = endOfPrefix(prefix);
      const to = end === undefined ? '+' : `(${end}`;
      let from = startOf(prefix, options.cursor);
      const keys: string[] = [];
      for (;;) {
        // One more than asked for says whether there is another page.
        const count = Math.min(limit - keys.length + 1, BATCH);
        const answer = await this.#connection.script(LIST, ['1', this.#set, from, to, String(count)], true);
        const [last, ...living] = answer as [string, ...string[]];
        keys.push(...living);
        if (keys.length > limit) return { keys: keys.slice(0, limit), cursor: keys[limit - 1] as string };
        if (last === '') return { keys };
        from = `(${last}`;
      }
    });
  }

  lease(key: string, ttl: number): Promise<Lease | undefined> {
    return this.#work.run(async () => {
      checkKey(key);
      const name = `${this.#fence}:${key}`;
      const args = ['2', name, this.#fence, String(toMilliseconds(ttl))];
      const fence = Number(await this.#connection.script(LEASE, args));
      return fence === 0 ? undefined : this.#held(name, fence);
    });
  }

  close(): Promise<void> {
    return this.#work.close(() => this.#connection.close());
  }

  #held(name: string, fence: number): Lease {
    return {
      fence,
      renew: (ttl) =>
        this.#work.run(async () => {
          const args = ['1', name, String(fence), String(toMilliseconds(ttl))];
          return Number(await this.#connection.script(RENEW, args)) === 1;
        }),
      release: async () => {
        // A lease that cannot be given back ends by itself: no reason to fail what was done under it.
        await this.#work
          .run(() => this.#connection.script(RELEASE, ['1', name, String(fence)], true))
          .catch(() => {});
      },
    };
  }
}

function startOf(prefix: string, cursor: string | undefined): string {
  // In the order of bytes, which is not that of JavaScript's texts.
  const goesOn = cursor !== undefined && Buffer.compare(Buffer.from(cursor), Buffer.from(prefix)) >= 0;
  return goesOn ? `(${cursor}` : prefix === '' ? '-' : `[${prefix}`;
}
