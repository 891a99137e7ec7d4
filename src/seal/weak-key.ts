/** Bytes that a key of ours has: as many as AES-256 and SHA-256 work with. */
export const KEY_BYTES = 32;

/** Keys that stand in documents and tests for everybody to read. */
const EXAMPLES = new Set(['Qm9XrVt0y7ZL2bJ1uG8cKfS5wHdNpE4iTaOxR6MvYkU']);

/** Of 32 random bytes about 30 differ from each other; fewer than 16 do not come from a random source. */
const FEWEST_DISTINCT = 16;

/**
 * Says what makes a key weak, or undefined where nothing does. None of the rules ever meets a random key
 * (the likeliest, printable text, with a chance of one in 10^13).
 */
export function weaknessOf(key: Uint8Array, text: string): string | undefined {
  if (key.length !== KEY_BYTES) return `has ${key.length} bytes, not ${KEY_BYTES}`;
  if (EXAMPLES.has(text)) return 'is an example from the documentation';
  if (new Set(key).size < FEWEST_DISTINCT) return 'repeats a few bytes over and over';
  if (isPeriodic(key)) return 'repeats itself';
  if (isLadder(key)) return 'counts up or down';
  if (key.every((byte) => byte >= 0x20 && byte < 0x7f)) return 'is readable text, not random bytes';
  return undefined;
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
