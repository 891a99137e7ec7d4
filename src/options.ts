import { ValiseError } from './errors.ts';
import { isObject } from './json.ts';

/** What an option takes: in words, and the test of it. */
export type Taken = readonly [words: string, fits: (value: unknown) => boolean];

export const FLAG: Taken = ['true or false', (value) => typeof value === 'boolean'];
export const TEXT: Taken = ['text', (value) => typeof value === 'string'];
/** For what is checked where it is read. */
export const ANYTHING: Taken = ['anything', () => true];
export const BYTES: Taken = [
  'a whole number of bytes, at least 1024',
  (value) => Number.isSafeInteger(value) && (value as number) >= 1024,
];
export const FUNCTION: Taken = ['a function', (value) => typeof value === 'function'];
export const SETTINGS: Taken = ['an object with settings', isObject];

/** What each option takes. All are named, so that a name that is not among them is a mistake. */
export type TakenBy<Options> = { readonly [Name in keyof Options]-?: Taken };

/**
 * Throws where what was given to `name` are no options, where one of them is something else than it takes, or where there
 * is no option of that name. An option that is undefined is one that was not given.
 */
export function checkOptions<Options extends object>(
  name: string,
  options: Options,
  taken: TakenBy<Options>,
): void {
  if (!isObject(options)) throw badOption(`${name} was given options that are no object`, 'an object');
  for (const [option, value] of Object.entries(options)) {
    if (value === undefined) continue;
    if (!Object.hasOwn(taken, option))
      throw badOption(`${name} has no option ${option}`, `one of ${Object.keys(taken).join(', ')}`);
    const [words, fits] = taken[option as keyof Options];
    if (!fits(value)) throw badOption(`The option ${option} of ${name} is not what it takes`, words);
  }
}

/** Throws where what was given to the function `name` is something else than it takes. */
export function checkArgument(name: string, value: unknown, [words, fits]: Taken): void {
  if (!fits(value))
    throw new ValiseError('bad-argument', `${name} was given something else than it takes.`, {
      next: `Give ${words}.`,
    });
}

function badOption(what: string, words: string): ValiseError {
  return new ValiseError('bad-option', `${what}.`, { next: `Give ${words}.` });
}
