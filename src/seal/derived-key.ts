import { createSecretKey, hkdfSync, type KeyObject, randomBytes } from 'node:crypto';
import type { RingKey } from './keyring.ts';

/** Bytes of salt, nonce and tag in a token's body. */
export const SALT_BYTES = 16;
export const NONCE_BYTES = 12;
export const TAG_BYTES = 16;

/** Tokens under one salt. Far below what AES-GCM bears, and a new salt costs one derivation. */
const TOKENS_PER_SALT = 2 ** 24;

/** Derived keys kept per key of the ring: one for each process whose tokens come in. */
const KEPT = 1024;

/** The key that a salt selects: HKDF-SHA-256 of a key of the ring. */
export function deriveKey(key: RingKey, salt: Uint8Array): KeyObject {
  const bytes = Buffer.from(hkdfSync('sha256', key.secret, salt, 'valise v1 seal', 32));
  const derived = createSecretKey(bytes);
  bytes.fill(0);
  return derived;
}

/** A key to seal with, and the nonce that the next token must have. */
export interface SealingKey {
  readonly key: KeyObject;
  readonly salt: Buffer;
  /** Changed in place by the next call. */
  readonly nonce: Buffer;
}

/**
 * Hands out nonces that never repeat under their key: the salt is drawn when the first token is sealed, the nonces are
 * counted. Random nonces under one shared key would wear it out after 2^32 tokens, and cost more.
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
 * Derived keys by salt, a bounded number of them. Only keys under which a token has proved genuine are kept,
 * so made-up salts cost their sender's request a derivation but never push out a good key.
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

  /** Second chance: drops the oldest key that has not been used since it was last looked at. */
  #drop(): void {
    for (const [salt, entry] of this.#kept) {
      this.#kept.delete(salt);
      if (!entry.used) return;
      entry.used = false;
      this.#kept.set(salt, entry);
    }
  }
}
