import type { Json } from '../json.ts';
import { sha256 } from '../sha256.ts';

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
export type Claims = readonly [
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
export type Kind = typeof VALUE | typeof REFERENCE | typeof KEPT_VALUE;
export const VALUE = 0;
export const REFERENCE = 1;
export const KEPT_VALUE = 2;

/** Whether the value has the shape above. A genuine token comes from a holder of the key, but perhaps not from this code. */
export function isClaims(value: unknown): value is Claims {
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
export function digestOf(label: 'subject' | 'binding', id: string, text: string): string {
  return sha256(`${label}:${id}:${text}`).slice(0, 22);
}

/** Whether two digests are equal. The time taken does not depend on where they differ. */
export function sameDigest(a: string, b: string): boolean {
  let difference = a.length ^ b.length;
  for (let index = 0; index < b.length; index++) difference |= a.charCodeAt(index) ^ b.charCodeAt(index);
  return difference === 0;
}
