import { ValiseError } from './errors.ts';
import { isObject } from './json.ts';

/** What an option takes: in words, and the test of it. */
export type Taken = readonly [words: string, fits: (value: unknown) => boolean];

export const FLAG: Taken = ['true or false', (value) => typeof value === 'boolean'];
export const TEXT: Taken = ['text', (value) => typeof value === 'string'];
export const SETTINGS: Taken = ['an object with settings', isObject];

/**
 * Throws where what was given to `name` are no options, or where one of them is something else than it takes. An option
 * that is undefined is one that was not given.
 */
export function checkOptions<Options extends object>(
  name: string,
  options: Options,
  taken: { readonly [Name in keyof Options]?: Taken },
): void {
  if (!isObject(options)) throw badOption(`${name} was given options that are no object`, 'an object');
  for (const option of Object.keys(taken)) {
    const value = options[option];
    const [words, fits] = taken[option as keyof Options] as Taken;
    if (value !== undefined && !fits(value))
      throw badOption(`The option ${option} of ${name} is not what it takes`, words);
  }
}

function badOption(what: string, words: string): ValiseError {
  return new ValiseError('bad-option', `${what}.`, { next: `Give ${words}.` });
}
