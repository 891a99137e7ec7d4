import { ValiseError } from '../core/errors.ts';
import { clock, sleep } from './kit/clock.ts';

/** The meaning of a remote store's failure for the caller. */
export interface RemoteFailure {
  readonly code: 'store-unavailable' | 'store-denied' | 'store-read-only' | 'store-full' | 'store-failed';
  /** Whether a write certainly did not happen, so that repeating it is safe, or may have happened. */
  readonly outcome: 'not-done' | 'unknown';
  /** What the operator can do, if that is more than the code says. */
  readonly next?: string;
}

/** Returns the failure of a call that certainly had no effect. */
export function notDone(code: RemoteFailure['code'], next?: string): RemoteFailure {
  return { code, outcome: 'not-done', ...(next !== undefined && { next }) };
}

const NEXT: Readonly<Record<RemoteFailure['code'], string>> = {
  'store-unavailable': 'Check that the server runs and can be reached; the store reconnects by itself.',
  'store-denied': 'Check the user, the password and its permissions.',
  'store-read-only': 'Use a server that takes writes: the primary, not a replica.',
  'store-full': 'Give the server more room, or remove entries.',
  'store-failed': 'The cause says what the server answered.',
};

const DOUBT = ' A write under way may or may not have been done.';

/** Returns the typed error for a failure of the server named `server`. */
export function remoteError(
  server: string,
  { code, outcome, next }: RemoteFailure,
  cause: unknown,
): ValiseError {
  const doubt = outcome === 'unknown' ? DOUBT : '';
  return new ValiseError(code, `${server} failed: ${messageOf(cause)}.${doubt}`, {
    next: next ?? NEXT[code],
    outcome,
    cause: bare(cause),
  });
}

/** Returns the error of a later attempt at a write, marked as unknown because an earlier attempt may have succeeded. */
function inDoubt(error: ValiseError): ValiseError {
  if (error.outcome === 'unknown') return error;
  const { code, what, next, cause } = error;
  return new ValiseError(code, `${what}${DOUBT}`, {
    ...(next !== undefined && { next }),
    outcome: 'unknown',
    cause,
  });
}

/** Returns the typed error for a server that did not respond in time. */
export function timeoutError(server: string, ms: number, outcome: RemoteFailure['outcome']): ValiseError {
  const cause = new Error(`no answer within ${ms / 1000} s`);
  return remoteError(server, { code: 'store-unavailable', outcome }, cause);
}

/**
 * Returns the error for a conditional write that failed after its connection had been lost. An earlier delivery may have
 * succeeded and been overwritten since, which is not a conflict.
 */
export function lostReplyError(server: string): ValiseError {
  return remoteError(server, { code: 'store-unavailable', outcome: 'unknown' }, 'the connection was lost');
}

/** How calls to one kind of server are retried. */
export interface Retries {
  /** How long all attempts may take, in milliseconds. */
  readonly timeout: number;
  /** Whether the call has the same effect if it arrives twice, so that it is sent again after a lost reply. */
  readonly repeatable: boolean;
  /** Maps an error of the client library. */
  failureOf(error: unknown): RemoteFailure;
  errorOf(failure: RemoteFailure, error: unknown): ValiseError;
}

/** One attempt at a call. Receives the deadline, and whether an earlier attempt may have had an effect. */
type Attempt<T> = (deadline: number, mayHaveRun: boolean) => Promise<T>;

/**
 * Attempts a call until the time is over. Retries if the server was certainly not reached, or if the call is
 * repeatable.
 */
export function attempts<T>(retries: Retries, attempt: Attempt<T>): Promise<T> {
  const deadline = clock.elapsed() + retries.timeout;
  // Almost every call succeeds at the first attempt, so that one costs as few promises as possible.
  return attempt(deadline, false).then(undefined, (error: unknown) =>
    retry(retries, attempt, deadline, error),
  );
}

/** Repeats a call whose first attempt failed with `first`. */
async function retry<T>(
  { repeatable, failureOf, errorOf }: Retries,
  attempt: Attempt<T>,
  deadline: number,
  first: unknown,
): Promise<T> {
  let error = first;
  let mayHaveRun = false;
  for (let round = 1; ; round++) {
    if (error instanceof ValiseError) throw mayHaveRun ? inDoubt(error) : error;
    const failure = failureOf(error);
    if (failure.outcome === 'unknown') mayHaveRun = true;
    const mayRetry = failure.code === 'store-unavailable' && (repeatable || failure.outcome === 'not-done');
    const wait = Math.random() * Math.min(10 * 2 ** round, 300);
    if (!mayRetry || clock.elapsed() + wait > deadline) {
      const typed = errorOf(failure, error);
      throw mayHaveRun ? inDoubt(typed) : typed;
    }
    await sleep(wait);
    try {
      return await attempt(deadline, mayHaveRun);
    } catch (next) {
      error = next;
    }
  }
}

/** The parts of a URL that may name several hosts: `scheme://user:password@a:1,b:2/path?query`. */
export interface RemoteUrl {
  readonly scheme: string;
  readonly username: string;
  readonly password: string;
  /** At least one host. The port is undefined if the URL has none. */
  readonly hosts: readonly { readonly host: string; readonly port: number | undefined }[];
  /** The path without the leading slash. */
  readonly path: string;
  readonly query: URLSearchParams;
  /** The name of the servers in messages. Never contains the user or the password. */
  readonly shown: string;
}

const URL_PARTS = /^([a-z][a-z0-9+.-]*):\/\/(?:([^@/?#]*)@)?([^@/?#]*)(?:\/([^?#]*))?(?:\?([^#]*))?$/i;

/** Parses the URL of a remote store. Throws `store-invalid` without repeating the URL, because it may contain a password. */
export function parseRemoteUrl(kind: string, url: string): RemoteUrl {
  try {
    const [, scheme = '', credentials = '', hosts = '', path = '', query = ''] = URL_PARTS.exec(url) ?? [];
    if (scheme === '') throw new TypeError('not a URL');
    const [username = '', ...password] = credentials.split(':');
    return {
      scheme: scheme.toLowerCase(),
      username: decodeURIComponent(username),
      password: decodeURIComponent(password.join(':')),
      hosts: hosts.split(',').map(parseHost),
      path,
      query: new URLSearchParams(query),
      shown: hosts === '' ? kind : `${kind} at ${hosts}`,
    };
  } catch {
    throw badUrl(kind);
  }
}

function parseHost(text: string): { host: string; port: number | undefined } {
  // A special scheme makes `URL` check and normalize the host. It omits its default port from `port`.
  const { hostname, port, username, pathname } = new URL(`ftp://${text === '' ? '127.0.0.1' : text}`);
  if (username !== '' || pathname !== '/') throw new TypeError('not a host');
  const explicit = /:(\d+)$/.exec(text)?.[1];
  return {
    host: hostname.replace(/^\[(.*)\]$/, '$1'),
    port: port !== '' ? Number(port) : explicit === undefined ? undefined : Number(explicit),
  };
}

/** Returns the error for an invalid URL. The message does not contain the URL. */
export function badUrl(kind: string, what = `This is not a URL of ${kind}.`): ValiseError {
  return new ValiseError('store-invalid', what, {
    next: 'Write it like redis://user:password@host:6379/0, postgres://user:password@host:5432/database or upstash://token@host, odd characters as %XX.',
  });
}

/**
 * Returns the first text after all texts that start with `prefix`, in the order of UTF-8 bytes. Returns undefined if
 * there is none.
 *
 * @example
 * ```ts
 * endOfPrefix('cart/'); // 'cart0': every key from 'cart/' to before 'cart0' starts with 'cart/'
 * ```
 */
export function endOfPrefix(prefix: string): string | undefined {
  const points = [...prefix];
  for (let last = points.pop(); last !== undefined; last = points.pop()) {
    const point = last.codePointAt(0) as number;
    if (point === 0x10ffff) continue;
    // The code points of surrogates are not characters.
    const next = point >= 0xd7ff && point < 0xe000 ? 0xe000 : point + 1;
    return points.join('') + String.fromCodePoint(next);
  }
  return undefined;
}

/** Escapes what has a meaning in a pattern of Redis. */
export function escapeGlob(text: string): string {
  return text.replace(/[*?[\]\\]/g, '\\$&');
}

/** Whether a text has the format of a version. Other text was never issued, so there is no need to ask the server. */
export function isVersion(text: string): boolean {
  return /^[\w.-]{1,100}$/.test(text);
}

function messageOf(cause: unknown): string {
  const message = cause instanceof Error ? cause.message || codeOf(cause) || cause.name : String(cause);
  return message.replace(/\.$/, '');
}

/** Copies only the message and code of an error: a driver's error may contain its command, and with it values and passwords. */
function bare(cause: unknown): Error {
  const error = new Error(messageOf(cause));
  const code = codeOf(cause);
  return code === undefined ? error : Object.assign(error, { code });
}

/** Returns the `code` of a driver's error, if it has one. */
export function codeOf(cause: unknown): string | undefined {
  const code = (cause as { code?: unknown } | null | undefined)?.code;
  return typeof code === 'string' ? code : undefined;
}

/** The errors of Redis, of its client libraries, and of services that speak its protocol. */
const REDIS_FAILURES: readonly (readonly [RegExp, RemoteFailure])[] = [
  [/^(NOAUTH|WRONGPASS|NOPERM)|invalid password|Authentication required/, notDone('store-denied')],
  [
    /\bMISCONF\b/,
    notDone(
      'store-read-only',
      'Redis refuses writes because it cannot save to disk (MISCONF): check its disk and its log.',
    ),
  ],
  [/\bREADONLY\b/, notDone('store-read-only')],
  [/\bOOM\b/, notDone('store-full')],
  [
    /\b(MOVED|ASK|CROSSSLOT)\b/,
    notDone(
      'store-failed',
      'This server is part of a Redis Cluster: use a URL such as redis+cluster://HOST:PORT, or a Cluster client.',
    ),
  ],
  [
    /^(LOADING|BUSY|CLUSTERDOWN|TRYAGAIN|MASTERDOWN|NOREPLICAS)\b|max number of clients|Stream isn't writeable/,
    notDone('store-unavailable'),
  ],
];

/** Maps an error of a Redis client to a failure. */
export function redisFailureOf(error: unknown): RemoteFailure {
  const { name, message } = error instanceof Error ? error : new Error(String(error));
  const known = REDIS_FAILURES.find(([pattern]) => pattern.test(message));
  if (known) return known[1];
  // ioredis and node-redis use these names for responses of the server itself; anything else happened in transit.
  const isAnswer = /^(ReplyError|ErrorReply|SimpleError|BlobError)$/.test(name);
  return { code: isAnswer ? 'store-failed' : 'store-unavailable', outcome: 'unknown' };
}
