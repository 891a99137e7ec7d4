import { ValiseError } from 'mcp-valise/client';
import { isObject } from 'mcp-valise/internal';

/** What a route receives: the query of a GET, or the JSON body of a POST. */
export type Input = Readonly<Record<string, unknown>>;

/** One operation of the console. */
export interface Route {
  /** True if it changes the store or calls a server. It is then refused without `--write`. */
  readonly writes?: boolean;
  /** Returns the answer, as JSON. */
  run(input: Input): unknown;
}

/** Operations by method and path, for example `GET servers`. */
export type Routes = Readonly<Record<string, Route>>;

/** Returns a text of the input. Throws if it is missing. */
export function text(input: Input, name: string): string {
  const value = input[name];
  if (typeof value === 'string' && value !== '') return value;
  throw new ValiseError('invalid-argument', `The request has no ${name}.`, { next: 'Reload the page.' });
}

/** Returns a text of the input, or undefined. */
export function optionalText(input: Input, name: string): string | undefined {
  const value = input[name];
  return typeof value === 'string' && value !== '' ? value : undefined;
}

/** Returns an object of the input, or an empty one. */
export function members(input: Input, name: string): Readonly<Record<string, unknown>> {
  const value = input[name];
  return isObject(value) ? value : {};
}
