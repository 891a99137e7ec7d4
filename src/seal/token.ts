import { SealError } from './error.ts';
import { KID_CHARS } from './keyring.ts';

/**
 * The token format, version 1:
 *
 * ```text
 * v1.<kid>.<body>
 * kid   8 characters: base64url of HKDF-SHA-256(key, salt "", info "valise v1 kid", 6 bytes)
 * body  base64url without padding, in its canonical spelling, of
 *       salt (16 bytes) ‖ nonce (12) ‖ ciphertext ‖ tag (16)
 * ```
 *
 * The ciphertext is AES-256-GCM under HKDF-SHA-256(key, salt, info "valise v1 seal", 32 bytes), with the nonce, and
 * with the ASCII bytes of `v1.<kid>.` as additional data. `claims.ts` describes the plaintext. `docs/seals.md`
 * describes the whole format, with a test vector.
 */
const TOKEN_START = 'v1.';

/** The number of bytes of the salt, the nonce and the tag in the body of a token. */
export const SALT_BYTES = 16;
export const NONCE_BYTES = 12;
export const TAG_BYTES = 16;

const BODY_AT = TOKEN_START.length + KID_CHARS + 1;
const SMALLEST_BODY = SALT_BYTES + NONCE_BYTES + TAG_BYTES;
const DOT = 46;

/** Returns the start of a token, which is also the additional data. */
export function tokenPrefix(kid: string): string {
  return `${TOKEN_START}${kid}.`;
}

/** Returns the kid of a token with a valid length and outer shape. */
export function kidOf(token: unknown, maxBytes: number): string | undefined {
  if (typeof token !== 'string' || token.length > maxBytes) return undefined;
  if (!token.startsWith(TOKEN_START) || token.charCodeAt(BODY_AT - 1) !== DOT) return undefined;
  return token.slice(TOKEN_START.length, BODY_AT - 1);
}

/** Whether the text has the format of a kid. */
export function isKid(text: string): boolean {
  return /^[\w-]{8}$/.test(text);
}

// This buffer holds only public data (salt, nonce, ciphertext, tag), and only within one synchronous call.
const scratch = Buffer.allocUnsafeSlow(64 * 1024);

/** Returns a buffer of at least `bytes` bytes, valid until the next call of a function in this file. */
function room(bytes: number): Buffer {
  return bytes <= scratch.length ? scratch : Buffer.allocUnsafeSlow(bytes);
}

/** Joins the parts of a body and encodes the token. */
export function writeToken(
  prefix: string,
  salt: Buffer,
  nonce: Buffer,
  ciphertext: Buffer,
  tag: Buffer,
): string {
  const size = SMALLEST_BODY + ciphertext.length;
  const body = room(size);
  body.set(salt, 0);
  body.set(nonce, SALT_BYTES);
  body.set(ciphertext, SALT_BYTES + NONCE_BYTES);
  body.set(tag, size - TAG_BYTES);
  return prefix + body.toString('base64url', 0, size);
}

/**
 * Returns the bytes of a token's body, valid until the next token is read or written. Returns undefined if the text is
 * not their canonical form: Node decodes base64url leniently, and a token with two forms could be used twice.
 */
export function readBody(token: string): Buffer | undefined {
  const text = token.slice(BODY_AT);
  const body = room((text.length * 3) >> 2);
  const size = body.write(text, 0, 'base64url');
  if (size < SMALLEST_BODY || body.toString('base64url', 0, size) !== text) return undefined;
  return body.subarray(0, size);
}

/** The public parts of a token. */
export interface TokenHeader {
  readonly version: 1;
  /** The id of the key that sealed the token. */
  readonly kid: string;
  /** The length of the token. */
  readonly bytes: number;
  /** The length of the sealed content, including claims, as sent. */
  readonly sealedBytes: number;
}

/**
 * Reads the parts of a token that need no key. Throws {@link SealError} `malformed` if it is not a token.
 *
 * @example
 * ```ts
 * inspectToken(token); // { version: 1, kid: 'mS2Vx0aQ', bytes: 334, sealedBytes: 197 }
 * ```
 */
export function inspectToken(token: string): TokenHeader {
  const kid = kidOf(token, Number.POSITIVE_INFINITY);
  const body = kid !== undefined && isKid(kid) ? readBody(token) : undefined;
  if (kid === undefined || body === undefined) throw new SealError('malformed');
  return { version: 1, kid, bytes: token.length, sealedBytes: body.length - SMALLEST_BODY };
}
