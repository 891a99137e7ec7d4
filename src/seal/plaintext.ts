import { deflateRawSync, inflateRawSync } from 'node:zlib';
import { type Claims, isClaims } from './claims.ts';

/** The first byte of a compressed plaintext. An uncompressed one starts with the bracket of its JSON array. */
const COMPRESSED = 0x01;

/** Compresses the text if that makes it shorter. */
export function packPlaintext(text: string): string | Buffer {
  const packed = deflateRawSync(text);
  return packed.length + 1 < Buffer.byteLength(text) ? Buffer.concat([Buffer.of(COMPRESSED), packed]) : text;
}

/** Reads the claims. Returns undefined if they are invalid or exceed `maxBytes` when decompressed. */
export function readPlaintext(plaintext: Buffer, maxBytes: number): Claims | undefined {
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
export function isCompressed(plaintext: Buffer): boolean {
  return plaintext[0] === COMPRESSED;
}
