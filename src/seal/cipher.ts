import {
  createCipheriv,
  createDecipheriv,
  createSecretKey,
  hkdfSync,
  type KeyObject,
  randomBytes,
} from 'node:crypto';
import type { SealReason } from './error.ts';
import type { RingKey } from './keyring.ts';
import {
  isKid,
  kidOf,
  NONCE_BYTES,
  readBody,
  SALT_BYTES,
  TAG_BYTES,
  tokenPrefix,
  writeToken,
} from './token.ts';

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

/** The number of tokens per salt. It is far below the limit of AES-GCM, and a new salt costs one derivation. */
const TOKENS_PER_SALT = 2 ** 24;

/** The number of derived keys cached per key of the ring: one for each process whose tokens arrive. */
const KEPT = 1024;

/** Derives the key that a salt selects: HKDF-SHA-256 of a key of the ring. */
function deriveKey(key: RingKey, salt: Uint8Array): KeyObject {
  const bytes = Buffer.from(hkdfSync('sha256', key.secret, salt, 'valise v1 seal', 32));
  const derived = createSecretKey(bytes);
  bytes.fill(0);
  return derived;
}

/** A key to seal with, and the nonce that the next token must use. */
export interface SealingKey {
  readonly key: KeyObject;
  readonly salt: Buffer;
  /** The next call changes it in place. */
  readonly nonce: Buffer;
}

/**
 * Returns a function that issues nonces which never repeat under their key. The salt is drawn when the first token is
 * sealed, and the nonces are counted. Random nonces under one shared key would exhaust it after 2^32 tokens, and cost
 * more.
 */
export function createSealingKeys(
  key: RingKey,
  drawn: (salt: Buffer, derived: KeyObject) => void,
): () => SealingKey {
  let current: SealingKey | undefined;
  let count = 0;
  return () => {
    if (current === undefined || count === TOKENS_PER_SALT) {
      const salt = randomBytes(SALT_BYTES);
      current = { key: deriveKey(key, salt), salt, nonce: Buffer.alloc(NONCE_BYTES) };
      count = 0;
      drawn(salt, current.key);
    }
    current.nonce.writeUInt32BE(count++, NONCE_BYTES - 4);
    return current;
  };
}

/**
 * A bounded cache of derived keys by salt. It stores only keys that opened a genuine token, so forged salts cost one
 * derivation per request but never evict a good key.
 */
export class OpeningKeys {
  readonly #kept = new Map<string, { readonly key: KeyObject; used: boolean }>();

  find(salt: string): KeyObject | undefined {
    const entry = this.#kept.get(salt);
    if (entry === undefined) return undefined;
    entry.used = true;
    return entry.key;
  }

  keep(salt: string, key: KeyObject): void {
    if (this.#kept.size >= KEPT) this.#drop();
    this.#kept.set(salt, { key, used: false });
  }

  /** Evicts by second chance: removes the oldest key that was not used since the last pass. */
  #drop(): void {
    for (const [salt, entry] of this.#kept) {
      this.#kept.delete(salt);
      if (!entry.used) return;
      entry.used = false;
      this.#kept.set(salt, entry);
    }
  }
}
