import { type Duration, seconds } from '../../core/duration.ts';
import { ValiseError } from '../../core/errors.ts';
import { type CommandClient, RedisConnection } from '../redis/connection.ts';
import { checkNamespace, RedisStore } from '../redis/store.ts';
import { badUrl, notDone, parseRemoteUrl, remoteError } from '../remote.ts';
import type { Store } from '../types.ts';

/** Where an Upstash database is reached over HTTP, as its console shows it. */
export interface UpstashDatabase {
  /** The REST URL, for example `https://us1-merry-cat-32748.upstash.io` (`UPSTASH_REDIS_REST_URL`). */
  readonly url: string;
  /** The REST token (`UPSTASH_REDIS_REST_TOKEN`). A read-only token is not enough. */
  readonly token: string;
}

/** Options of {@link upstashStore}. */
export interface UpstashStoreOptions {
  /** The prefix of all keys in the database. @defaultValue `'valise'` */
  readonly namespace?: string;
  /** How long a call waits, including for an unreachable server, before it fails with `store-unavailable`. @defaultValue 10 s */
  readonly timeout?: Duration;
  /** Sends the requests. @defaultValue the global `fetch` */
  readonly fetch?: typeof fetch;
}

/**
 * Creates a store on a Redis that is reached over HTTP, in the REST protocol of Upstash. It needs no package and no
 * socket, so it runs on Workers, Deno and every other edge runtime. It keeps its own entries: `redisStore` on the same
 * database does not see them.
 *
 * @param source The database, or `upstash://TOKEN@HOST`.
 *
 * @example
 * ```ts
 * import { upstashStore } from 'mcp-valise/store/upstash';
 *
 * const store = upstashStore({
 *   url: process.env.UPSTASH_REDIS_REST_URL,
 *   token: process.env.UPSTASH_REDIS_REST_TOKEN,
 * });
 * ```
 */
export function upstashStore(source: string | UpstashDatabase, options: UpstashStoreOptions = {}): Store {
  const { namespace = 'valise', timeout = 10, fetch = globalThis.fetch } = options;
  checkNamespace(namespace);
  const { url, token } = databaseOf(source);
  const ms = seconds(timeout) * 1000;
  const connection = RedisConnection.on(restClient(url, token, ms, fetch), ms, `Upstash at ${url.host}`);
  // There are no shards to spread entries over, so one hash tag is enough: a listing then reads one index instead of 60.
  return new RedisStore(connection, `${namespace}:rest`, { tags: ['all'] });
}

/** Sends each command as a POST with a JSON array, and returns `result` of the response. */
function restClient(url: URL, token: string, timeout: number, send: typeof fetch): CommandClient {
  // Replicas that have not reached this point wait before they answer, so that a store reads its own writes.
  let syncToken: string | undefined;
  return {
    async sendCommand(args) {
      const response = await send(url, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${token}`,
          'content-type': 'application/json',
          ...(syncToken !== undefined && { 'upstash-sync-token': syncToken }),
        },
        body: JSON.stringify(args),
        redirect: 'manual',
        signal: AbortSignal.timeout(timeout),
      });
      const body = await response.text();
      syncToken = response.headers.get('upstash-sync-token') ?? syncToken;
      return resultOf(url, response.status, body);
    },
  };
}

function resultOf(url: URL, status: number, body: string): unknown {
  const { result, error } = parse(body) ?? {};
  if (status === 200 && result !== undefined) return result;
  const said = typeof error === 'string' ? error : `HTTP status ${status}`;
  if (status === 401 || status === 403)
    throw remoteError(`Upstash at ${url.host}`, notDone('store-denied', 'Check the REST token.'), said);
  // Load balancers answer with these statuses, and the same request may succeed later. Other answers are final.
  const isTransient = status === 429 || status >= 500 || status === 200;
  throw Object.assign(new Error(said), { name: isTransient ? 'Error' : 'ReplyError' });
}

function parse(body: string): { readonly result?: unknown; readonly error?: unknown } | undefined {
  try {
    return JSON.parse(body) as object;
  } catch {
    return undefined;
  }
}

function databaseOf(source: string | UpstashDatabase): { url: URL; token: string } {
  if (typeof source === 'string') {
    const { scheme, username, password, hosts, path } = parseRemoteUrl('Upstash', source);
    const [{ host, port } = { host: '', port: undefined }, ...others] = hosts;
    if (scheme !== 'upstash' || others.length > 0 || path !== '') throw badUrl('Upstash');
    const address = `${host.includes(':') ? `[${host}]` : host}${port === undefined ? '' : `:${port}`}`;
    return databaseOf({
      url: `${isLoopback(host) ? 'http' : 'https'}://${address}`,
      token: password === '' ? username : password,
    });
  }
  const { url, token } = source;
  if (typeof token !== 'string' || token === '')
    throw new ValiseError('store-invalid', 'An Upstash store needs a REST token.', {
      next: 'Pass { url, token } with the values in the Upstash console, or upstash://TOKEN@HOST.',
    });
  if (typeof url !== 'string' || !URL.canParse(url)) throw badUrl('Upstash');
  const parsed = new URL(url);
  // The token must not travel in plain text.
  const isSafe = parsed.protocol === 'https:' || (parsed.protocol === 'http:' && isLoopback(parsed.hostname));
  if (!isSafe) throw badUrl('Upstash', 'The REST URL of Upstash must start with https:.');
  return { url: parsed, token };
}

function isLoopback(host: string): boolean {
  return /^(localhost|127\..*|\[?::1\]?)$/.test(host);
}
