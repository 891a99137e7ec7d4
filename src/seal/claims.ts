import type { Json } from '../json.ts';
import { sha256 } from '../sha256.ts';

/**
 * What is sealed in a token, before encryption: the UTF-8 text of a JSON array of eight,
 *
 * ```text
 * [issued, expires, purpose, audience, subject, binding, kind, payload]
 * ```
 *
 * - `issued`, `expires`: whole seconds since 1970
 * - `purpose`, `audience`: text
 * - `subject`, `binding`: 0 where there is none, else the digest of `digestOf`
 * - `kind`: 0 payload, 1 name of a token kept in a store, 2 payload of a token kept in a store
 *
 * or one byte 0x01 and then that text, compressed with raw deflate. The array is one `JSON.stringify` and one
 * `JSON.parse` with the payload, which is what makes a seal cost hardly more than the bare cipher.
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

/** What the payload of a token is. */
export type Kind = typeof VALUE | typeof REFERENCE | typeof KEPT_VALUE;
export const VALUE = 0;
export const REFERENCE = 1;
export const KEPT_VALUE = 2;

/** True for the shape above. A token that proved genuine comes from a holder of the key, but perhaps not from this code. */
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
 * The digest of a subject or a binding: the first 22 characters of the base64url of
 * SHA-256(`<label>:<id>:<text>`), where id is the base64url of salt ‖ nonce and text is canonical JSON.
 * The id makes it another one in every token, so nobody can look for two inputs with one digest ahead of time.
 */
export function digestOf(label: 'subject' | 'binding', id: string, text: string): string {
  return sha256(`${label}:${id}:${text}`).slice(0, 22);
}

/** True where two digests are equal; takes equally long wherever they differ. */
export function sameDigest(a: string, b: string): boolean {
  let difference = a.length ^ b.length;
  for (let index = 0; index < b.length; index++) difference |= a.charCodeAt(index) ^ b.charCodeAt(index);
  return difference === 0;
}
