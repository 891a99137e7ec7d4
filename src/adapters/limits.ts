import { ValiseError } from '../errors.ts';
import type { Taken } from '../options.ts';
import { sha256 } from '../sha256.ts';

/** An option that limits a number of items. */
export const COUNT: Taken = [
  'a whole number, at least 1',
  (value) => Number.isSafeInteger(value) && (value as number) >= 1,
];

/** An option that separates the records of one owner from those of others. */
export const NAME: Taken = ['text that is not empty', (value) => typeof value === 'string' && value !== ''];

/** Returns an option without which the records of all owners would be merged. Throws `invalid-argument` if it is undefined. */
export function requireOption(adapter: string, option: string, value: string | undefined): string {
  if (value !== undefined) return value;
  throw new ValiseError('invalid-argument', `${adapter} was given no ${option}.`, {
    next: `Give ${NAME[0]}.`,
  });
}

/** Returns a fixed-length key part for text that others choose. The text itself does not appear in the store. */
export function keyPart(text: string): string {
  return sha256(text).slice(0, 32);
}
