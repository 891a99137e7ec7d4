import type { Taken } from '../options.ts';
import { sha256 } from '../sha256.ts';

/** An option that limits a number of items. */
export const COUNT: Taken = [
  'a whole number, at least 1',
  (value) => Number.isSafeInteger(value) && (value as number) >= 1,
];

/** Returns a fixed-length key part for text that others choose. The text itself does not appear in the store. */
export function keyPart(text: string): string {
  return sha256(text).slice(0, 32);
}
