import { randomBytes } from 'node:crypto';
import { ValiseError } from '../core/errors.ts';
import type { Json } from '../core/json.ts';
import { lazy } from '../core/lazy.ts';
import type { Entry, Store } from './types.ts';

// What drivers share: checks of arguments, versions, entries as text, and the tracking of pending calls.

const MAX_KEY_BYTES = 1024;

/** Throws if the key is invalid. A key is 1 to 1,024 bytes of well-formed Unicode without NUL, the same in every driver. */
export function checkKey(key: string): void {
  if (typeof key === 'string' && key !== '' && fits(key) && isPlain(key)) return;
  throw new ValiseError('store-invalid', `${describeKey(key)} cannot be a key of a store.`, {
    next: `Use 1 to ${MAX_KEY_BYTES} bytes of well-formed Unicode text without NUL; hash what is longer.`,
  });
}

/**
 * PostgreSQL text cannot contain NUL, and UTF-8 cannot contain a lone surrogate: two different ones would become the
 * same key.
 */
function isPlain(key: string): boolean {
  return key.isWellFormed() && !key.includes('\0');
}

function fits(key: string): boolean {
  // A UTF-16 code unit takes at most three bytes in UTF-8, so short keys need no counting.
  return key.length * 3 <= MAX_KEY_BYTES || Buffer.byteLength(key) <= MAX_KEY_BYTES;
}

function describeKey(key: unknown): string {
  if (typeof key !== 'string') return `A value of type ${typeof key}`;
  if (key === '') return 'The empty text';
  return key.length > 40 ? `A text of ${key.length} characters` : JSON.stringify(key);
}

/** Returns the JSON text of a value. Throws an error with the reason if there is none. */
export function toText(key: string, value: Json): string {
  let text: string | undefined;
  let cause: unknown;
  try {
    text = JSON.stringify(value);
  } catch (error) {
    cause = error;
  }
  if (text !== undefined) return text;
  throw new ValiseError('store-invalid', `The value for ${JSON.stringify(key)} is not JSON.`, {
    next: 'Store text, finite numbers, booleans, null, and arrays and plain objects of them.',
    cause,
  });
}

/** Returns a lifetime in milliseconds. Throws if it is invalid. */
export function toMilliseconds(ttl: number): number {
  if (typeof ttl === 'number' && ttl > 0 && ttl <= 1e11) return Math.ceil(ttl * 1000);
  throw new ValiseError('store-invalid', `${String(ttl)} is not a lifetime.`, {
    next: 'Pass a positive number of seconds, or omit it for an entry that does not expire.',
  });
}

/** Returns the size of a page of keys. Throws if it is invalid. */
export function toLimit(limit: number | undefined): number {
  if (limit === undefined) return 1000;
  if (Number.isInteger(limit) && limit > 0) return Math.min(limit, 10_000);
  throw new ValiseError('store-invalid', `${String(limit)} is not a number of keys.`, {
    next: 'Pass a whole number from 1 to 10,000, or omit it for 1,000.',
  });
}

/** Returns the error of every method after its store has been closed. */
export function closedError(): ValiseError {
  return new ValiseError('closed', 'This store has been closed.', { next: 'Open it again to continue.' });
}

const origin = lazy(() => randomBytes(9).toString('base64url'));
let count = 0;

/** Returns a version that no process has used or will use again, without a shared counter. */
export function nextVersion(): string {
  return `${origin()}.${(count++).toString(36)}`;
}

/**
 * Compares the format of a store with the one that this version writes. Returns true if they are the same, and false if
 * the store needs an upgrade. Throws `store-newer` for the format of a later version, so that nothing in it is touched.
 */
export function checkLayout(place: string, found: unknown, current: number): boolean {
  const layout = found === undefined || found === null ? 0 : Number(found);
  if (layout <= current) return layout === current;
  throw new ValiseError(
    'store-newer',
    `The ${place} was written by a later version of Valise (format ${layout}, known: ${current}).`,
    {
      next: 'Upgrade this process. Nothing was changed.',
    },
  );
}

/** Parses an entry as servers return it: `version SP expiresAt-or-0 SP json`, a single text that costs one field to read. */
export function parseEntry(key: string, text: string): Entry {
  const first = text.indexOf(' ');
  const second = text.indexOf(' ', first + 1);
  const expiresAt = Number(text.slice(first + 1, second));
  if (first < 1 || second < 0 || Number.isNaN(expiresAt)) throw corruptEntryError(key);
  const value = parseValue(key, text.slice(second + 1));
  const version = text.slice(0, first);
  return expiresAt === 0 ? { value, version } : { value, version, expiresAt };
}

/** Parses a value that a driver stored as JSON text. */
export function parseValue(key: string, text: string): Json {
  try {
    return JSON.parse(text) as Json;
  } catch {
    throw corruptEntryError(key);
  }
}

/**
 * Returns the error for an entry that cannot be read. It has no cause: the parser's error quotes the value, which may
 * be a secret.
 */
function corruptEntryError(key: string): ValiseError {
  return new ValiseError(
    'store-corrupt',
    `The entry ${JSON.stringify(key)} is damaged, or another program wrote it.`,
    {
      next: 'Restore the entry from a backup, overwrite it or delete it. No other program may write to the store.',
    },
  );
}

/** Counts pending calls, so that closing waits for them and rejects later ones. */
export class Work {
  readonly #refusal: () => Error;
  #count = 0;
  #closing: Promise<void> | undefined;
  #done: (() => void) | undefined;

  /** `refusal` creates the error for calls after closing. */
  constructor(refusal: () => Error = closedError) {
    this.#refusal = refusal;
  }

  get closed(): boolean {
    return this.#closing !== undefined;
  }

  /** Runs `job`. Returns its value, or the result of `read` on it. This is a hot path, so it creates no extra promise. */
  run<T, Result = T>(job: () => Promise<T>, read?: (value: T) => Result): Promise<Result> {
    if (this.#closing) return Promise.reject(this.#refusal());
    this.#count++;
    try {
      return job().then(
        (value) => {
          this.#leave();
          return read ? read(value) : (value as unknown as Result);
        },
        (error: unknown) => {
          this.#leave();
          throw error;
        },
      );
    } catch (error) {
      this.#leave();
      return Promise.reject(error);
    }
  }

  #leave(): void {
    if (--this.#count === 0) this.#done?.();
  }

  /** Waits for pending calls, then runs `end` once. */
  close(end: () => Promise<void> | void): Promise<void> {
    this.#closing ??= new Promise<void>((resolve) => {
      if (this.#count === 0) resolve();
      else this.#done = resolve;
    }).then(end);
    return this.#closing;
  }
}

/** What prevents others from reading a store. `'host'` means that whoever provided the store is responsible. */
export type Secrecy = 'memory' | 'sealed' | 'host';

const known = new WeakMap<Store, Secrecy>();

/** Declares what prevents others from reading a store. Drivers call it. */
export function declareSecrecy<S extends Store>(store: S, secrecy: Secrecy | undefined): S {
  if (secrecy) known.set(store, secrecy);
  return store;
}

/** Returns what prevents others from reading the store, or undefined if nothing is known to. */
export function secrecyOf(store: Store): Secrecy | undefined {
  return known.get(store);
}
