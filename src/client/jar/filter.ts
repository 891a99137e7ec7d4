import { ValiseError } from '../../errors.ts';
import { isObject } from '../../json.ts';
import type { Scope } from '../../wire/index.ts';
import { normalScope } from '../identity.ts';
import type { Entry } from './entry.ts';
import type { JarFilter } from './types.ts';

/** Decides whether a filter selects an entry. */
export interface Matcher {
  (scope: Scope, key: string, entry: Entry): boolean;
  /** Whether the filter may select entries of a set with this name. */
  covers(set: string): boolean;
  /** The name of the one server that is selected. */
  readonly server: string | undefined;
}

/**
 * Prepares a filter, which may have one additional name. Selects a server by its name, URL or path, and with it everything
 * that would be sent to it.
 */
export function matcher(filter: JarFilter, more?: string): Matcher {
  checkFilter(filter, more);
  const { server, scope, key } = filter;
  const name = server === undefined ? undefined : serverName(server);
  const within = (domain: string): boolean => name === domain || name?.endsWith(`.${domain}`) === true;
  const isMeant = (one: string): boolean => name === undefined || one === name || one.startsWith(`${name}#`);
  const matches = (its: Scope, itsKey: string, { from, attributes }: Entry): boolean =>
    (scope === undefined || its === scope) &&
    (key === undefined || itsKey === key) &&
    (isMeant(from) ||
      (its === 'server' && attributes.serverScope !== undefined && within(attributes.serverScope)));
  return Object.assign(matches, {
    covers: (set: string) =>
      set.startsWith('.') ? within(set.slice(1)) || name === undefined : isMeant(set),
    server: name,
  });
}

const WANTED: { readonly [Name in keyof JarFilter]-?: readonly [string, (value: unknown) => boolean] } = {
  server: ['the name or the URL of a server', isText],
  scope: ["'session' or 'server'", (value) => value === 'session' || value === 'server'],
  key: ['the name of a piece of state', isText],
};

function isText(value: unknown): boolean {
  return typeof value === 'string';
}

/** Rejects misspelled or undefined names. They would not narrow the filter, so it would select everything. */
function checkFilter(filter: unknown, more: string | undefined): void {
  if (!isObject(filter)) throw badFilter('is no object');
  const prototype: unknown = Object.getPrototypeOf(filter);
  // The names of a URL or a map would not be visible.
  if (prototype !== Object.prototype && prototype !== null) throw badFilter('is no plain object');
  for (const name of Object.keys(filter)) {
    if (name === more) continue;
    if (!Object.hasOwn(WANTED, name)) throw badFilter(`has an unknown name: ${JSON.stringify(name)}`);
    const [wanted, fits] = WANTED[name as keyof JarFilter];
    if (!fits(filter[name])) throw badFilter(`has a ${name} that is not ${wanted}`);
  }
}

function badFilter(why: string): ValiseError {
  return new ValiseError('invalid-argument', `The filter for the jar ${why}.`, {
    next: 'Give server, scope or key, or leave out what is not to be narrowed; without a filter everything is meant.',
  });
}

/** Returns the normalized host of a URL or a name. Returns a path unchanged. */
function serverName(text: string): string {
  if (/^[a-z][a-z0-9+.-]*:\/\//i.test(text)) {
    return URL.canParse(text) ? new URL(text).hostname.replace(/\.$/, '') : text;
  }
  return /[/\\\s#+]/.test(text) ? text : normalScope(text);
}
