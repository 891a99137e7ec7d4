import { createSecretKey, hkdfSync, type KeyObject, randomBytes } from 'node:crypto';
import { ValiseError } from '../errors.ts';
import { KEY_BYTES, weaknessOf } from './weak-key.ts';

/**
 * The keys of a deployment: the first one seals, all of them open. It exposes no key material that can be read, printed
 * or serialized. Create one with {@link parseKeys} or {@link loadKeys}.
 */
export interface Keyring {
  /** The ids of the keys, in order. They are public: every token contains one. */
  readonly kids: readonly string[];
  /** Whether the key was generated for this process. Nothing sealed with it survives a restart or opens elsewhere. */
  readonly ephemeral: boolean;
}

/** Options for reading keys. */
export interface KeyOptions {
  /** Accepts short, patterned and example keys. For tests only. */
  readonly allowWeakKeys?: boolean | undefined;
}

/** One key of a ring, as the sealer uses it. */
export interface RingKey {
  readonly kid: string;
  readonly secret: KeyObject;
}

/** The length of a kid as text, which encodes six bytes. */
export const KID_CHARS = 8;

// The keys are stored outside the object, so that no inspection, spread or serialization of a ring can reach them.
const secrets = new WeakMap<Keyring, readonly [RingKey, ...RingKey[]]>();

/**
 * Generates a new key: 32 random bytes as base64url.
 *
 * @example
 * ```ts
 * process.stdout.write(`VALISE_KEYS=${generateKey()}\n`);
 * ```
 */
export function generateKey(): string {
  const key = randomBytes(KEY_BYTES);
  const text = key.toString('base64url');
  return weaknessOf(key, text) === undefined ? text : generateKey();
}

/**
 * Parses a keyring from text: keys of 32 bytes as base64url, separated by commas. The first seals, all open. Throws a
 * {@link ValiseError} (`no-keys`, `invalid-key`, `invalid-key`) that identifies a key by its position, never by its value.
 *
 * @example
 * ```ts
 * const keys = parseKeys(`${newKey},${oldKey}`);
 * ```
 */
export function parseKeys(text: string, options: KeyOptions = {}): Keyring {
  const parts = (typeof text === 'string' ? text : '')
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '');
  const keys = new Map<string, RingKey>();
  parts.forEach((part, index) => {
    const key = ringKey(readKey(part, `Key ${index + 1} of ${parts.length}`, options));
    if (!keys.has(key.kid)) keys.set(key.kid, key);
  });
  return keyring([...keys.values()], false);
}

/**
 * Loads the keyring of this process from the environment variable `VALISE_KEYS`. If it is not set, generates a random
 * key that lives as long as the process (`ephemeral` is then true).
 *
 * @example
 * ```ts
 * const keys = loadKeys();
 * if (keys.ephemeral) warn('Set VALISE_KEYS: what is sealed now will not open after a restart.');
 * ```
 */
export function loadKeys(
  options: KeyOptions & { readonly env?: Readonly<Record<string, string | undefined>> } = {},
): Keyring {
  const text = (options.env ?? process.env)['VALISE_KEYS'];
  if (text !== undefined && text.trim() !== '') return parseKeys(text, options);
  return keyring([ringKey(randomBytes(KEY_BYTES))], true);
}

/** Returns the keys of a ring. Not part of the public API. */
export function keysOf(ring: Keyring): readonly [RingKey, ...RingKey[]] {
  const keys = secrets.get(ring);
  if (keys) return keys;
  throw new ValiseError('invalid-key', 'What was given as keys is not a keyring.', {
    next: 'Make one with parseKeys() or loadKeys().',
  });
}

function keyring(keys: readonly RingKey[], ephemeral: boolean): Keyring {
  const [first, ...rest] = keys;
  if (!first) {
    throw new ValiseError('no-keys', 'The text holds no key.', {
      next: 'Give keys of 32 bytes as base64url, separated by commas; generateKey() makes one.',
    });
  }
  const ring = Object.freeze({ kids: Object.freeze(keys.map((key) => key.kid)), ephemeral });
  secrets.set(ring, [first, ...rest]);
  return ring;
}

function readKey(text: string, name: string, { allowWeakKeys = false }: KeyOptions): Buffer {
  const key = Buffer.from(text, 'base64url');
  if (key.length === 0 || key.toString('base64url') !== text) {
    throw new ValiseError('invalid-key', `${name} is not base64url.`, {
      next: `Write ${KEY_BYTES} bytes with A-Z a-z 0-9 - _ and no padding; generateKey() makes one.`,
    });
  }
  const weakness = allowWeakKeys ? undefined : weaknessOf(key, text);
  if (weakness !== undefined) {
    throw new ValiseError('invalid-key', `${name} ${weakness}.`, {
      next: 'Make a new one with `valise keys generate`, or with generateKey(); in tests, allowWeakKeys lets it pass.',
    });
  }
  return key;
}

function ringKey(bytes: Buffer): RingKey {
  const secret = createSecretKey(bytes);
  bytes.fill(0);
  const kid = Buffer.from(hkdfSync('sha256', secret, '', 'valise v1 kid', 6)).toString('base64url');
  return { kid, secret };
}
