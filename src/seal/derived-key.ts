import { createSecretKey, hkdfSync, type KeyObject, randomBytes } from 'node:crypto';
import type { RingKey } from './keyring.ts';

/** The number of bytes of the salt, the nonce and the tag in the body of a token. */
export const SALT_BYTES = 16;
export const NONCE_BYTES = 12;
export const TAG_BYTES = 16;

/** The number of tokens per salt. It is far below the limit of AES-GCM, and a new salt costs one derivation. */
const TOKENS_PER_SALT = 2 ** 24;

/** The number of derived keys cached per key of the ring: one for each process whose tokens arrive. */
const KEPT = 1024;

/** Derives the key that a salt selects: HKDF-SHA-256 of a key of the ring. */
export function deriveKey(key: RingKey, salt: Uint8Array): KeyObject {
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
