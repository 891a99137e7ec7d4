import { deflateRawSync, inflateRawSync } from 'node:zlib';
import { ValiseError } from '../core/errors.ts';
import { tell } from '../core/events.ts';
import type { Json } from '../core/json.ts';
import { sha256 } from '../core/sha256.ts';
import { canonicalJson } from './canonical.ts';
import { type Cipher, idOfNext, idOfOpened, type Opened } from './cipher.ts';
import { SealError, type SealReason } from './error.ts';
import {
  type OpenOptions,
  purposeOf,
  type RejectEvent,
  type SealOptions,
  type Settings,
  subjectTextOf,
  type TokenDescription,
  wholeSeconds,
} from './options.ts';

/**
 * The content of a token before encryption: the UTF-8 text of a JSON array with eight elements,
 *
 * ```text
 * [issued, expires, purpose, audience, subject, binding, kind, payload]
 * ```
 *
 * - `issued`, `expires`: whole seconds since 1970
 * - `purpose`, `audience`: text
 * - `subject`, `binding`: 0 if there is none, otherwise the digest from `digestOf`
 * - `kind`: 0 for a payload, 1 for the name of a token kept in a store, 2 for the payload of a token kept in a store
 *
 * or one byte 0x01 followed by that text, compressed with raw deflate. The array takes one `JSON.stringify` and one
 * `JSON.parse` including the payload, so a seal costs hardly more than the bare cipher.
 */
type Claims = readonly [
  issued: number,
  expires: number,
  purpose: string,
  audience: string,
  subject: string | 0,
  binding: string | 0,
  kind: Kind,
  payload: Json,
];

/** The kind of payload in a token. */
type Kind = typeof VALUE | typeof REFERENCE | typeof KEPT_VALUE;
export const VALUE = 0;
export const REFERENCE = 1;
export const KEPT_VALUE = 2;

/** Whether the value has the shape above. A genuine token comes from a holder of the key, but perhaps not from this code. */
function isClaims(value: unknown): value is Claims {
  return (
    Array.isArray(value) &&
    value.length === 8 &&
    Number.isSafeInteger(value[0]) &&
    Number.isSafeInteger(value[1]) &&
    typeof value[2] === 'string' &&
    typeof value[3] === 'string' &&
    (value[4] === 0 || typeof value[4] === 'string') &&
    (value[5] === 0 || typeof value[5] === 'string') &&
    (value[6] === VALUE || value[6] === REFERENCE || value[6] === KEPT_VALUE)
  );
}

/**
 * Returns the digest of a subject or a binding: the first 22 characters of the base64url of
 * SHA-256(`<label>:<id>:<text>`). The id is the base64url of salt ‖ nonce, and the text is canonical JSON. The id makes
 * the digest different in every token, so nobody can search for two inputs with the same digest ahead of time.
 */
function digestOf(label: 'subject' | 'binding', id: string, text: string): string {
  return sha256(`${label}:${id}:${text}`).slice(0, 22);
}

/** Whether two digests are equal. The time taken does not depend on where they differ. */
function sameDigest(a: string, b: string): boolean {
  let difference = a.length ^ b.length;
  for (let index = 0; index < b.length; index++) difference |= a.charCodeAt(index) ^ b.charCodeAt(index);
  return difference === 0;
}

/** The first byte of a compressed plaintext. An uncompressed one starts with the bracket of its JSON array. */
const COMPRESSED = 0x01;

/** Compresses the text if that makes it shorter. */
function packPlaintext(text: string): string | Buffer {
  const packed = deflateRawSync(text);
  return packed.length + 1 < Buffer.byteLength(text) ? Buffer.concat([Buffer.of(COMPRESSED), packed]) : text;
}

/** Reads the claims. Returns undefined if they are invalid or exceed `maxBytes` when decompressed. */
function readPlaintext(plaintext: Buffer, maxBytes: number): Claims | undefined {
  try {
    const bytes = isCompressed(plaintext)
      ? inflateRawSync(plaintext.subarray(1), { maxOutputLength: maxBytes })
      : plaintext;
    const claims: unknown = JSON.parse(bytes.toString('utf8'));
    return isClaims(claims) ? claims : undefined;
  } catch {
    return undefined;
  }
}

/** Whether the plaintext is compressed. */
function isCompressed(plaintext: Buffer): boolean {
  return plaintext[0] === COMPRESSED;
}

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

/** The reading half of a sealer. */
export interface Reader {
  /** Returns a genuine token of one of the kinds that matches the options. Throws otherwise. */
  read(token: string, options: OpenOptions, kind: Kind, otherKind?: Kind): Genuine;
  /** Like `read`, for any purpose, principal, request and time. */
  authenticate(token: string): Genuine;
  /** Returns the description of a genuine token. */
  describe(genuine: Genuine): TokenDescription;
  /** Calls the listener and throws. Every rejection goes through here, so that all of them look alike. */
  refuse(event: RejectEvent): never;
}

/** A genuine token. */
export interface Genuine {
  readonly claims: Claims;
  /** Valid until the next token is sealed or opened. */
  readonly opened: Opened;
  readonly bytes: number;
}

export function createReader({ audience, skew, maxBytes, onReject, now }: Settings, cipher: Cipher): Reader {
  /** Checks in this order: byte limit, canonical form, key, cipher, then parse. */
  const unseal = (token: string): Genuine | SealReason => {
    const opened = cipher.open(token);
    if (typeof opened === 'string') return opened;
    const claims = readPlaintext(opened.plaintext, maxBytes);
    return claims === undefined ? 'malformed' : { claims, opened, bytes: token.length };
  };

  const isOver = (claims: Claims): boolean => {
    const time = now() / 1000;
    return time >= claims[1] + skew || time < claims[0] - skew;
  };

  const faultOf = (
    { claims, opened }: Genuine,
    options: OpenOptions,
    purpose: string,
  ): SealReason | undefined => {
    const id = claims[4] === 0 && claims[5] === 0 ? '' : idOfOpened(opened);
    // All checks run before one is reported, so that the time a rejection takes does not reveal its cause.
    const over = isOver(claims);
    const subjectFits = fits(claims[4], 'subject', id, subjectTextOf(options));
    const bindingFits = fits(claims[5], 'binding', id, bindingTextOf(options));
    if (over) return 'expired';
    if (claims[3] !== audience) return 'wrong-audience';
    if (!subjectFits) return 'wrong-subject';
    if (!bindingFits) return 'wrong-binding';
    return claims[2] === purpose ? undefined : 'wrong-purpose';
  };

  const describe = ({ claims, opened, bytes }: Genuine): TokenDescription => ({
    version: 1,
    kid: opened.kid,
    bytes,
    sealedBytes: opened.plaintext.length,
    id: idOfOpened(opened),
    issuedAt: new Date(claims[0] * 1000),
    expiresAt: new Date(claims[1] * 1000),
    expired: isOver(claims),
    purpose: claims[2],
    audience: claims[3],
    hasSubject: claims[4] !== 0,
    isBound: claims[5] !== 0,
    isReference: claims[6] === REFERENCE,
    compressed: isCompressed(opened.plaintext),
  });

  const refuse = (event: RejectEvent): never => {
    // An error in the listener must neither open the token nor change how the rejection looks.
    if (onReject) tell(onReject, event);
    throw new SealError(event.reason);
  };

  return {
    describe,
    refuse,

    read(token, options, kind, otherKind = kind) {
      const purpose = purposeOf(options);
      const genuine = unseal(token);
      if (typeof genuine === 'string') return refuse({ reason: genuine, purpose });
      const fault = faultOf(genuine, options, purpose) ?? kindFault(genuine, kind, otherKind);
      if (fault !== undefined) return refuse({ reason: fault, purpose, token: describe(genuine) });
      return genuine;
    },

    authenticate(token) {
      const genuine = unseal(token);
      return typeof genuine === 'string' ? refuse({ reason: genuine, purpose: undefined }) : genuine;
    },
  };
}

/** Rejects a token kept in a store that is presented directly, and a reference that is presented as the value. */
function kindFault({ claims }: Genuine, kind: Kind, otherKind: Kind): SealReason | undefined {
  return claims[6] === kind || claims[6] === otherKind ? undefined : 'wrong-purpose';
}

/** Whether a claim was sealed with this text, or both are absent. */
function fits(
  claim: string | 0,
  label: 'subject' | 'binding',
  id: string,
  text: string | undefined,
): boolean {
  if (claim === 0 || text === undefined) return claim === 0 && text === undefined;
  return sameDigest(claim, digestOf(label, id, text));
}

/**
 * Returns the text to bind to. A value from a request may be too deep or malformed to bind to. Nothing was ever sealed
 * for such a value, so it becomes '', which matches no digest.
 */
function bindingTextOf({ bind }: OpenOptions): string | undefined {
  if (bind === undefined) return undefined;
  try {
    return canonicalJson(bind);
  } catch {
    return '';
  }
}
