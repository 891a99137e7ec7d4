// A second implementation of the token, written from docs/seals.md alone: AES-GCM by @noble/ciphers,
// HKDF and SHA-256 by WebCrypto, base64url by hand. It shares no line with src/seal.
import { inflateRawSync } from 'node:zlib';
import { gcm } from '@noble/ciphers/aes.js';

const utf8 = new TextEncoder();
const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';

function toBase64url(bytes: Uint8Array): string {
  let text = '';
  for (let at = 0; at < bytes.length; at += 3) {
    const [a = 0, b = 0, c = 0] = bytes.subarray(at, at + 3);
    const sextets = [a >> 2, ((a & 3) << 4) | (b >> 4), ((b & 15) << 2) | (c >> 6), c & 63];
    text += sextets
      .slice(0, Math.min(3, bytes.length - at) + 1)
      .map((sextet) => ALPHABET[sextet])
      .join('');
  }
  return text;
}

function fromBase64url(text: string): Uint8Array {
  const bytes: number[] = [];
  let bits = 0;
  let held = 0;
  for (const letter of text) {
    held = (held << 6) | ALPHABET.indexOf(letter);
    bits += 6;
    if (bits >= 8) bytes.push((held >> (bits -= 8)) & 255);
  }
  return Uint8Array.from(bytes);
}

async function hkdf(key: Uint8Array, salt: Uint8Array, info: string, bytes: number): Promise<Uint8Array> {
  const material = await crypto.subtle.importKey('raw', new Uint8Array(key), 'HKDF', false, ['deriveBits']);
  const params = { name: 'HKDF', hash: 'SHA-256', salt: new Uint8Array(salt), info: utf8.encode(info) };
  return new Uint8Array(await crypto.subtle.deriveBits(params, material, bytes * 8));
}

export async function kidOf(key: Uint8Array): Promise<string> {
  return toBase64url(await hkdf(key, new Uint8Array(), 'valise v1 kid', 6));
}

export interface Parts {
  readonly key: Uint8Array;
  readonly salt: Uint8Array;
  readonly nonce: Uint8Array;
  readonly plaintext: string | Uint8Array;
}

export async function makeToken({ key, salt, nonce, plaintext }: Parts): Promise<string> {
  const prefix = `v1.${await kidOf(key)}.`;
  const derived = await hkdf(key, salt, 'valise v1 seal', 32);
  const bytes = typeof plaintext === 'string' ? utf8.encode(plaintext) : plaintext;
  const sealed = gcm(derived, nonce, utf8.encode(prefix)).encrypt(bytes);
  return prefix + toBase64url(Uint8Array.from([...salt, ...nonce, ...sealed]));
}

/** The eight claims of a token; rejects where it is not genuine. */
export async function openToken(key: Uint8Array, token: string): Promise<unknown[]> {
  const body = fromBase64url(token.slice(12));
  const derived = await hkdf(key, body.subarray(0, 16), 'valise v1 seal', 32);
  const cipher = gcm(derived, body.subarray(16, 28), utf8.encode(token.slice(0, 12)));
  const plaintext = cipher.decrypt(body.subarray(28));
  const text = plaintext[0] === 1 ? inflateRawSync(plaintext.subarray(1)) : plaintext;
  return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(text));
}

export async function digestOf(label: 'subject' | 'binding', token: string, text: string): Promise<string> {
  const id = toBase64url(fromBase64url(token.slice(12)).subarray(0, 28));
  const hash = await crypto.subtle.digest('SHA-256', utf8.encode(`${label}:${id}:${text}`));
  return toBase64url(new Uint8Array(hash)).slice(0, 22);
}
