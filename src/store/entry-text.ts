import { ValiseError } from '../errors.ts';
import type { Json } from '../json.ts';
import type { Entry } from './types.ts';

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
    `The entry ${JSON.stringify(key)} is damaged: Valise did not write this.`,
    {
      next: 'Restore it from a copy, write it again or delete it; and let nothing else write to the place of the store.',
    },
  );
}
