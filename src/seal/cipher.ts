import { createCipheriv, createDecipheriv, type KeyObject } from 'node:crypto';
import {
  createSealingKeys,
  deriveKey,
  NONCE_BYTES,
  OpeningKeys,
  SALT_BYTES,
  type SealingKey,
  TAG_BYTES,
} from './derived-key.ts';
import type { SealReason } from './error.ts';
import type { RingKey } from './keyring.ts';
import { isKid, kidOf, readBody, tokenPrefix, writeToken } from './token.ts';

const ALGORITHM = 'aes-256-gcm';
const HEAD_BYTES = SALT_BYTES + NONCE_BYTES;

/** Seals and opens bytes. It handles keys and tokens and does not interpret the content. */
export interface Cipher {
  /** Returns the key and nonce for the next token. Use each for exactly one `seal`, before requesting the next. */
  next(): SealingKey;
  seal(plaintext: string | Buffer, next: SealingKey): string;
  /** Returns the plaintext of a genuine token, or the reason it was rejected. */
  open(token: string): Opened | SealReason;
}

/** A genuine token. */
export interface Opened {
  readonly kid: string;
  readonly plaintext: Buffer;
  /** The body of the token. It is overwritten when the next token is sealed or opened. */
  readonly body: Buffer;
}

/**
 * Returns the id of the next token. The salt and nonce are unique by construction and authenticated, so the token needs
 * no separate id.
 */
export function idOfNext({ salt, nonce }: SealingKey): string {
  return Buffer.concat([salt, nonce]).toString('base64url');
}

/** Returns the id of an opened token. */
export function idOfOpened({ body }: Opened): string {
  return body.toString('base64url', 0, HEAD_BYTES);
}

/** Creates the cipher of a keyring. The first key seals; the kid in a token selects the key that opens it. */
export function createCipher(keys: readonly [RingKey, ...RingKey[]], maxBytes: number): Cipher {
  const opening = new Map(
    keys.map((key) => [
      key.kid,
      { key, additional: Buffer.from(tokenPrefix(key.kid)), kept: new OpeningKeys() },
    ]),
  );
  const [first] = keys;
  const prefix = tokenPrefix(first.kid);
  const additional = Buffer.from(prefix);
  const next = createSealingKeys(first, (salt, derived) => {
    opening.get(first.kid)?.kept.keep(salt.toString('latin1'), derived);
  });

  return {
    next,

    seal(plaintext, { key, salt, nonce }) {
      const cipher = createCipheriv(ALGORITHM, key, nonce);
      cipher.setAAD(additional);
      const ciphertext =
        typeof plaintext === 'string' ? cipher.update(plaintext, 'utf8') : cipher.update(plaintext);
      cipher.final();
      return writeToken(prefix, salt, nonce, ciphertext, cipher.getAuthTag());
    },

    open(token) {
      const kid = kidOf(token, maxBytes);
      if (kid === undefined) return 'malformed';
      const entry = opening.get(kid);
      const body = readBody(token);
      if (body === undefined) return 'malformed';
      if (entry === undefined) return isKid(kid) ? 'unknown-key' : 'malformed';
      const salt = body.toString('latin1', 0, SALT_BYTES);
      const known = entry.kept.find(salt);
      const key = known ?? deriveKey(entry.key, body.subarray(0, SALT_BYTES));
      const plaintext = decrypt(key, body, entry.additional);
      if (plaintext === undefined) return 'tampered';
      if (known === undefined) entry.kept.keep(salt, key);
      return { kid, plaintext, body };
    },
  };
}

function decrypt(key: KeyObject, body: Buffer, additional: Buffer): Buffer | undefined {
  const tagAt = body.length - TAG_BYTES;
  const decipher = createDecipheriv(ALGORITHM, key, body.subarray(SALT_BYTES, HEAD_BYTES));
  decipher.setAAD(additional);
  decipher.setAuthTag(body.subarray(tagAt));
  const plaintext = decipher.update(body.subarray(HEAD_BYTES, tagAt));
  try {
    decipher.final();
  } catch {
    return undefined;
  }
  return plaintext;
}
