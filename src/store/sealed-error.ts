import { ValiseError } from '../errors.ts';

/** Returns the error for a store that was written with keys and opened without. */
export function sealedError(name: string): ValiseError {
  return new ValiseError('store-wrong-key', `${name} is sealed, and no keys were given.`, {
    next: 'Open it with the keys it was written with: the option keys; for a client also VALISE_CLIENT_KEYS, on its command line also --key-file.',
  });
}

/** Returns the error for a store that was written without keys and opened with them. */
export function plainError(url: string): ValiseError {
  return new ValiseError('store-wrong-key', 'The store was written without keys, and is not sealed yet.', {
    next: `Seal what it holds, once: valise keys seal --store ${url} (in code: sealInPlace). If it was sealed before, do not: somebody has changed it.`,
  });
}

/** Thrown for an entry of a sealed store that was written without keys. */
export class PlainEntryError extends ValiseError {
  /** The version of the entry, for deleting or overwriting it. */
  readonly version: string;

  constructor(key: string, version: string, url: string) {
    super(
      'store-wrong-key',
      `The entry ${JSON.stringify(key)} was written without keys, although the store is sealed.`,
      {
        next: `Somebody else has put it there, or a process that was left running without keys: end it, then restore the entry from a copy, or drop what is not sealed: valise keys seal --drop-plain --store ${url}`,
      },
    );
    this.version = version;
  }
}

/** Returns the error for a seal mark that was written without keys. */
export function plainMarkError(): ValiseError {
  return new ValiseError('store-wrong-key', 'The store was written without keys, although it is sealed.', {
    next: 'Somebody has changed it: restore it from a copy.',
  });
}

/** Returns the error for content that was sealed with a key that is not on the keyring. */
export function wrongKeyError(what: string, kid: string, cause: unknown): ValiseError {
  return new ValiseError('store-wrong-key', `${what} was sealed with another key (its id is ${kid}).`, {
    next: 'Add that key to the keyring, after the one that seals now. Nothing has been changed.',
    cause,
  });
}

/** Returns the error for a store in which one part is sealed separately. */
export function partError(prefix: string): ValiseError {
  return new ValiseError(
    'store-wrong-key',
    `What starts with ${JSON.stringify(prefix)} is sealed by itself.`,
    {
      next: 'Seal the other parts by themselves too, each with its prefix. Nothing has been changed.',
    },
  );
}
