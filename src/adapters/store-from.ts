import { ValiseError } from '../errors.ts';
import { isObject } from '../json.ts';
import { isStore } from '../store/is-store.ts';
import type { PostgresPool } from '../store/postgres/connection.ts';
import type { RedisClient } from '../store/redis/connection.ts';
import type { Store } from '../store/types.ts';

/**
 * Opens a store on what a storage of unstorage, or a Keyv, is connected to: Redis, PostgreSQL, or a Valise store. Both
 * libraries lack compare-and-set in their interfaces, without which instances would overwrite each other's state, so
 * the store uses their client directly. It has keys of its own, and does not see the values of the other library.
 * Closing the store leaves the client open.
 *
 * @throws ValiseError `invalid-argument` if there is no such client behind it, for example for files and memory.
 *
 * @example
 * ```ts
 * const storage = createStorage({ driver: redisDriver({ url: 'redis://localhost' }) });
 * const valise = createValise({ store: await storeFrom(storage) });
 * ```
 */
export async function storeFrom(theirs: object): Promise<Store> {
  for (const client of clientsOf(theirs)) {
    if (isStore(client)) return client;
    if (isRedis(client)) {
      const { redisStore } = await import('../store/redis/store.ts');
      return redisStore(client);
    }
    if (isPool(client)) {
      const { postgresStore } = await import('../store/postgres/store.ts');
      return postgresStore(client);
    }
  }
  throw noCompareAndSet(nameOf(theirs));
}

/** Yields what may be a client: the object itself, and what libraries keep theirs in. */
function* clientsOf(theirs: unknown, depth = 0): Generator<object> {
  if (!isObject(theirs) || depth > 4) return;
  yield theirs;
  if (typeof theirs['getMount'] === 'function') {
    const mount: unknown = theirs['getMount']('');
    if (isObject(mount)) yield* clientsOf(mount['driver'], depth + 1);
    return;
  }
  if (typeof theirs['getInstance'] === 'function') {
    yield* clientsOf(theirs['getInstance'](), depth + 1);
    return;
  }
  for (const name of ['store', 'client', 'pool']) yield* clientsOf(theirs[name], depth + 1);
}

function hasAll(value: object, names: readonly string[]): boolean {
  return isObject(value) && names.every((name) => typeof value[name] === 'function');
}

function isRedis(client: object): client is RedisClient {
  const isIoredis = hasAll(client, ['call', 'duplicate', 'subscribe']);
  return isIoredis || hasAll(client, ['sendCommand', 'duplicate', 'subscribe', 'connect']);
}

function isPool(client: object): client is PostgresPool {
  return hasAll(client, ['connect', 'query', 'end']) && 'totalCount' in client;
}

/** Returns the name that a library gives its driver, for the message. */
function nameOf(theirs: object): string {
  for (const part of clientsOf(theirs)) {
    if (isObject(part) && typeof part['name'] === 'string' && part['name'] !== '') return part['name'];
  }
  return theirs.constructor?.name ?? 'This storage';
}

function noCompareAndSet(name: string): ValiseError {
  return new ValiseError(
    'invalid-argument',
    `${name} cannot be used as a store: it has no compare-and-set, so instances would overwrite each other's state.`,
    {
      next: "Use a storage on Redis or PostgreSQL, or open a store of Valise: openStore('sqlite:state.db').",
      outcome: 'not-done',
    },
  );
}
