import type { Taken } from '../options.ts';
import { sha256 } from '../sha256.ts';

/** An option that limits how many there may be. */
export const COUNT: Taken = [
  'a whole number, at least 1',
  (value) => Number.isSafeInteger(value) && (value as number) >= 1,
];

/** A part of a key made of text that others choose: its length and characters do not matter, and it does not show in the store. */
export function keyPart(text: string): string {
  return sha256(text).slice(0, 32);
}
