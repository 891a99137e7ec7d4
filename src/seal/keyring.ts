import { createSecretKey, hkdfSync, type KeyObject, randomBytes } from 'node:crypto';
import { ValiseError } from '../core/errors.ts';

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

/** The number of bytes of a key, as AES-256 and SHA-256 use. */
const KEY_BYTES = 32;

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

/** Example keys that are published in documentation and tests. */
const EXAMPLES = new Set(['Qm9XrVt0y7ZL2bJ1uG8cKfS5wHdNpE4iTaOxR6MvYkU']);

/** About 30 of 32 random bytes are distinct. Fewer than 16 distinct bytes do not come from a random source. */
const FEWEST_DISTINCT = 16;

/**
 * Returns what makes a key weak, or undefined if it is not. The rules practically never reject a random key: the most
 * likely false positive, text that looks written, has a chance of less than one in 2 * 10^10.
 */
function weaknessOf(key: Uint8Array, text: string): string | undefined {
  if (key.length !== KEY_BYTES) return `has ${key.length} bytes, not ${KEY_BYTES}`;
  if (EXAMPLES.has(text)) return 'is an example from the documentation';
  if (new Set(key).size < FEWEST_DISTINCT) return 'repeats a few bytes over and over';
  if (isPeriodic(key)) return 'repeats itself';
  if (isLadder(key)) return 'counts up or down';
  if (key.every((byte) => byte >= 0x20 && byte < 0x7f)) return 'is readable text, not random bytes';
  if (looksWritten(text)) return 'is a passphrase, not random bytes';
  return undefined;
}

/** The relative frequency of the letters a to z in English, in per mille. Other languages are close enough. */
const FREQUENCY = [
  82, 15, 28, 43, 127, 22, 20, 61, 70, 2, 8, 40, 24, 67, 75, 19, 1, 60, 63, 91, 28, 10, 24, 2, 20, 1,
];
const TOTAL = FREQUENCY.reduce((sum, one) => sum + one, 0);
/** A fifth of the letters are uniformly distributed, for names, rare words and other languages. */
const LETTER = FREQUENCY.map((one) => (0.8 * one) / TOTAL + 0.2 / 26);

type Row = readonly [small: number, capital: number, digit: number, mark: number];
/**
 * Models of how people write: which kind of character follows a small letter, a capital, a digit, and `-` or `_`. Each
 * row sums to 1.
 */
const STYLES: readonly (readonly [Row, Row, Row, Row])[] = [
  // small-words-With-2-marks
  [
    [0.82, 0.04, 0.04, 0.1],
    [0.75, 0.2, 0.03, 0.02],
    [0.1, 0.05, 0.7, 0.15],
    [0.6, 0.25, 0.1, 0.05],
  ],
  // CapitalWordsInOnePiece
  [
    [0.75, 0.2, 0.03, 0.02],
    [0.9, 0.06, 0.02, 0.02],
    [0.1, 0.3, 0.55, 0.05],
    [0.3, 0.55, 0.1, 0.05],
  ],
  // ALL-CAPITALS
  [
    [0.4, 0.4, 0.1, 0.1],
    [0.02, 0.8, 0.05, 0.13],
    [0.02, 0.2, 0.65, 0.13],
    [0.05, 0.75, 0.15, 0.05],
  ],
];
const FEWEST_BITS = 36;

/**
 * Whether base64url text is more likely written by a person than drawn at random, by a factor of 2^36 or more.
 *
 * Each style is a Markov chain, hence a probability distribution Q over texts; random keys have the uniform one, U. The
 * mean of Q/U over random keys is the sum of Q over all keys, which is at most 1. By Markov's inequality, no more than
 * one random key in 2^36 has Q/U >= 2^36. With three styles, at most 3 * 2^-36 = 4.4 * 10^-11 of random keys are
 * rejected. (The highest of 100,000 was 2^7; phrases of words are at 2^36 to 2^63.)
 */
function looksWritten(text: string): boolean {
  return STYLES.some((style) => {
    // In a key of 32 bytes, the last of 43 characters is one of 16, so it has two bits less than the others.
    let bits = -2;
    let before = 3;
    for (const char of text) {
      const kind = kindOf(char);
      const letter = LETTER[char.toLowerCase().charCodeAt(0) - 97] ?? (kind === 2 ? 0.1 : 0.5);
      bits += 6 + Math.log2((style[before] as Row)[kind] as number) + Math.log2(letter);
      before = kind;
    }
    return bits >= FEWEST_BITS;
  });
}

function kindOf(char: string): 0 | 1 | 2 | 3 {
  if (char >= 'a' && char <= 'z') return 0;
  if (char >= 'A' && char <= 'Z') return 1;
  return char >= '0' && char <= '9' ? 2 : 3;
}

function isPeriodic(key: Uint8Array): boolean {
  const half = key.length / 2;
  return key.subarray(0, half).every((byte, index) => byte === key[index + half]);
}

function isLadder(key: Uint8Array): boolean {
  const step = (index: number) => ((key[index + 1] ?? 0) - (key[index] ?? 0)) & 0xff;
  for (let index = 1; index < key.length - 1; index++) if (step(index) !== step(0)) return false;
  return true;
}
