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
import type { SealErrorCode } from './error.ts';
import type { RingKey } from './keyring.ts';
import { isKid, kidOf, readBody, tokenPrefix, writeToken } from './token.ts';

const ALGORITHM = 'aes-256-gcm';
const HEAD_BYTES = SALT_BYTES + NONCE_BYTES;

/** Seals and opens bytes. Knows keys and tokens, and nothing of what is in them. */
export interface Cipher {
  /** The key and nonce of the next token. Each must be used for one `seal`, before the next is taken. */
  next(): SealingKey;
  seal(plaintext: string | Buffer, next: SealingKey): string;
  /** The plaintext of a genuine token, or why it is none. */
  open(token: string): Opened | SealErrorCode;
}

/** A genuine token. */
export interface Opened {
  readonly kid: string;
  readonly plaintext: Buffer;
  /** The body of the token; overwritten when the next token is sealed or opened. */
  readonly body: Buffer;
}

/** The id of a token: unique by construction, and authenticated, so it needs no room of its own. */
export function idOfNext({ salt, nonce }: SealingKey): string {
  return Buffer.concat([salt, nonce]).toString('base64url');
}

/** The id of a token that was opened. */
export function idOfOpened({ body }: Opened): string {
  return body.toString('base64url', 0, HEAD_BYTES);
}

/** Builds the cipher of a keyring: the first key seals, the kid in a token says which one opens. */
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
