import { ValiseError } from '../errors.ts';
import type { Json } from '../json.ts';

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
    next: 'Give a positive number of seconds, or leave it out where the entry has no end.',
  });
}

/** Returns the size of a page of keys. Throws if it is invalid. */
export function toLimit(limit: number | undefined): number {
  if (limit === undefined) return 1000;
  if (Number.isInteger(limit) && limit > 0) return Math.min(limit, 10_000);
  throw new ValiseError('store-invalid', `${String(limit)} is not a number of keys.`, {
    next: 'Give a whole number from 1 to 10,000, or leave it out for 1,000.',
  });
}

/** Returns the error of every method after its store has been closed. */
export function closedError(): ValiseError {
  return new ValiseError('closed', 'This store has been closed.', { next: 'Open it again to go on.' });
}
