import { ValiseError } from '../errors.ts';

/** What went wrong between us and a server, whichever it is. */
export interface Trouble {
  readonly code: 'store-unavailable' | 'store-denied' | 'store-read-only' | 'store-full' | 'store-failed';
  /** True where the server has certainly not done what was asked, so that asking again is safe. */
  readonly undone: boolean;
}

const NEXT: Readonly<Record<Trouble['code'], string>> = {
  'store-unavailable':
    'Check that the server runs and can be reached; the store goes on by itself once it can.',
  'store-denied': 'Check the user, the password and the rights it has.',
  'store-read-only': 'Use a server that takes writes: the primary, not a replica.',
  'store-full': 'Give the server more room, or remove entries.',
  'store-failed': 'The cause says what the server answered.',
};

/** The typed error for trouble with the server called `server`. */
export function remoteError(server: string, { code, undone }: Trouble, cause: unknown): ValiseError {
  const doubt = undone ? '' : ' It is not known whether a write under way was done.';
  return new ValiseError(code, `${server} failed: ${messageOf(cause)}.${doubt}`, {
    next: NEXT[code],
    cause: bare(cause),
  });
}

/** The typed error for a server that gave no answer in time. */
export function timeoutError(server: string, ms: number, { undone }: { undone: boolean }): ValiseError {
  const cause = new Error(`no answer within ${ms / 1000} s`);
  return remoteError(server, { code: 'store-unavailable', undone }, cause);
}

/**
 * Where a server is, for messages: the host and the port of its URL, never the user or the password.
 * Throws where the text is no URL.
 */
export function placeOf(kind: string, url: string): string {
  try {
    const { host, username, password } = new URL(url);
    // The clients decode these too, and would quote them in full where they cannot.
    decodeURIComponent(username + password);
    return host === '' ? kind : `${kind} at ${host}`;
  } catch {
    throw new ValiseError('store-bad-url', `This is not a URL of ${kind}.`, {
      next: 'Write it like redis://user:password@host:6379/0 or postgres://user:password@host:5432/database, odd characters as %XX.',
    });
  }
}

/** Settles like `work`, or rejects with what `late` makes where that takes longer than `ms`. */
export function within<T>(work: Promise<T>, ms: number, late: () => Error): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(late()), ms);
    work.then(
      (value) => {
        clearTimeout(timer);
        resolve(value);
      },
      (error: unknown) => {
        clearTimeout(timer);
        reject(error);
      },
    );
  });
}

/**
 * The first text after all that start with `prefix`, in the order of UTF-8 bytes; undefined where nothing is.
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
    // The code points of surrogates are no characters of their own.
    const next = point >= 0xd7ff && point < 0xe000 ? 0xe000 : point + 1;
    return points.join('') + String.fromCodePoint(next);
  }
  return undefined;
}

/** Whether a text can be a version at all: what cannot was never given to anyone, and no server need be asked. */
export function isVersion(text: string): boolean {
  return /^[\w.-]{1,100}$/.test(text);
}

function messageOf(cause: unknown): string {
  const message = cause instanceof Error ? cause.message || codeOf(cause) || cause.name : String(cause);
  return message.replace(/\.$/, '');
}

/** A driver's error may carry the command it was for, and with it values and passwords: only its words travel on. */
function bare(cause: unknown): Error {
  const error = new Error(messageOf(cause));
  const code = codeOf(cause);
  return code === undefined ? error : Object.assign(error, { code });
}

/** The `code` of a driver's error, where it has one. */
export function codeOf(cause: unknown): string | undefined {
  const code = (cause as { code?: unknown } | null | undefined)?.code;
  return typeof code === 'string' ? code : undefined;
}
