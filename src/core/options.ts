import { ValiseError } from './errors.ts';
import { isObject } from './json.ts';

/** The accepted values of an option: a description and a predicate. */
export type Taken = readonly [words: string, fits: (value: unknown) => boolean];

export const FLAG: Taken = ['true or false', (value) => typeof value === 'boolean'];
export const TEXT: Taken = ['text', (value) => typeof value === 'string'];
/** For values that are validated where they are read. */
export const ANYTHING: Taken = ['anything', () => true];
export const BYTES: Taken = [
  'a whole number of bytes, at least 1024',
  (value) => Number.isSafeInteger(value) && (value as number) >= 1024,
];
export const FUNCTION: Taken = ['a function', (value) => typeof value === 'function'];
export const SETTINGS: Taken = ['an object with settings', isObject];

/** The accepted values of every option. All options are listed, so an unlisted name is a mistake. */
export type TakenBy<Options> = { readonly [Name in keyof Options]-?: Taken };

/**
 * Throws if the options of `name` are not an object, if an option has an invalid value, or if an option does not exist.
 * An undefined option counts as absent.
 */
export function checkOptions<Options extends object>(
  name: string,
  options: Options,
  taken: TakenBy<Options>,
): void {
  if (!isObject(options))
    throw badOption(`The options of ${withoutComma(name)} are not an object`, 'an object');
  for (const [option, value] of Object.entries(options)) {
    if (value === undefined) continue;
    if (!Object.hasOwn(taken, option))
      throw badOption(`${name} has no option ${option}`, `one of ${Object.keys(taken).join(', ')}`);
    const [words, fits] = taken[option as keyof Options];
    if (!fits(value))
      throw badOption(`Invalid value for the option ${option} of ${withoutComma(name)}`, words);
  }
}

/** Throws if the argument of the function `name` is invalid. */
export function checkArgument(name: string, value: unknown, [words, fits]: Taken): void {
  if (!fits(value))
    throw new ValiseError('invalid-argument', `Invalid argument for ${withoutComma(name)}.`, {
      next: `Pass ${words}.`,
    });
}

function badOption(what: string, words: string): ValiseError {
  return new ValiseError('invalid-argument', `${what}.`, { next: `Pass ${words}.` });
}

/** Removes the comma at the end of a name such as "createValise, under flows,". */
function withoutComma(name: string): string {
  return name.replace(/,$/, '');
}
