import { ValiseError } from '../errors.ts';
import { canonicalJson } from './canonical.ts';
import { type Cipher, idOfNext } from './cipher.ts';
import { digestOf, type Kind } from './claims.ts';
import { packPlaintext } from './plaintext.ts';
import { purposeOf, type Settings, subjectTextOf, wholeSeconds } from './settings.ts';
import type { SealOptions } from './types.ts';

/** The number of purposes whose text is cached. Programs have a handful; the text of further ones is built each time. */
const READY = 256;

/** Seals a value as a token of a kind. */
export type Write = (kind: Kind, value: unknown, options: SealOptions) => string;

/** Creates the writing half of a sealer. */
export function createWriter(settings: Settings, cipher: Cipher): Write {
  const { now, ttl, maxBytes, compressAbove } = settings;
  const audience = JSON.stringify(settings.audience);
  const ready = new Map<string, string>();

  const scopeOf = (purpose: string): string => {
    const known = ready.get(purpose);
    if (known !== undefined) return known;
    const text = `,${JSON.stringify(purpose)},${audience},`;
    if (ready.size < READY) ready.set(purpose, text);
    return text;
  };

  return (kind, value, options) => {
    const scope = scopeOf(purposeOf(options));
    const payload = stringify(value);
    const subject = subjectTextOf(options);
    const binding = options.bind === undefined ? undefined : canonicalJson(options.bind);
    const lifetime = options.ttl === undefined ? ttl : wholeSeconds(options.ttl);
    const issued = Math.floor(now() / 1000);
    // No foreign code (a toJSON, a clock) runs from here on, so the nonce is used for this token only.
    const next = cipher.next();
    const digests =
      subject === undefined && binding === undefined
        ? '0,0,'
        : writeDigests(idOfNext(next), subject, binding);
    const text = `[${issued},${issued + lifetime}${scope}${digests}${kind},${payload}]`;
    if (text.length > maxBytes) throw tooLarge(maxBytes);
    const plaintext = text.length > compressAbove ? packPlaintext(text) : text;
    const token = cipher.seal(plaintext, next);
    // A compressed token may fit although its text does not; it would be rejected when opened.
    if (token.length > maxBytes || (plaintext !== text && Buffer.byteLength(text) > maxBytes))
      throw tooLarge(maxBytes);
    return token;
  };
}

function writeDigests(id: string, subject: string | undefined, binding: string | undefined): string {
  const first = subject === undefined ? '0' : `"${digestOf('subject', id, subject)}"`;
  const second = binding === undefined ? '0' : `"${digestOf('binding', id, binding)}"`;
  return `${first},${second},`;
}

function stringify(value: unknown): string {
  let text: string | undefined;
  let cause: unknown;
  try {
    text = JSON.stringify(value);
  } catch (error) {
    cause = error;
  }
  if (text !== undefined) return text;
  throw new ValiseError('invalid-argument', 'The value to seal cannot be written as JSON.', {
    next: 'Seal a JSON value: no functions, no circles, no bigints.',
    cause,
  });
}

function tooLarge(maxBytes: number): ValiseError {
  return new ValiseError('too-large', `The value to seal needs a token of more than ${maxBytes} bytes.`, {
    next: 'Seal less, raise maxBytes, or keep the value in a store with sealLarge().',
  });
}
