import { ValiseError } from '../../errors.ts';
import { isObject } from '../../json.ts';
import type { Scope } from '../../wire/index.ts';
import { normalScope } from '../identity.ts';
import type { Item } from './item.ts';
import type { JarFilter } from './types.ts';

/** Tells whether a piece of state is meant by a filter. */
export interface Matcher {
  (scope: Scope, key: string, item: Item): boolean;
  /** True where state of a bag of this name might be meant. */
  covers(bag: string): boolean;
  /** The name of the one server that is meant. */
  readonly server: string | undefined;
}

/**
 * Prepares a filter, which may have one more name. A server is meant by its name, its URL or its path, and with it all that
 * would be sent to it.
 */
export function matcher(filter: JarFilter, more?: string): Matcher {
  checkFilter(filter, more);
  const { server, scope, key } = filter;
  const name = server === undefined ? undefined : serverName(server);
  const within = (domain: string): boolean => name === domain || name?.endsWith(`.${domain}`) === true;
  const isMeant = (one: string): boolean => name === undefined || one === name || one.startsWith(`${name}#`);
  const matches = (its: Scope, itsKey: string, { from, attributes }: Item): boolean =>
    (scope === undefined || its === scope) &&
    (key === undefined || itsKey === key) &&
    (isMeant(from) ||
      (its === 'server' && attributes.serverScope !== undefined && within(attributes.serverScope)));
  return Object.assign(matches, {
    covers: (bag: string) =>
      bag.startsWith('.') ? within(bag.slice(1)) || name === undefined : isMeant(bag),
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

/** What is misspelt or undefined would not narrow anything: it must not come to mean everything. */
function checkFilter(filter: unknown, more: string | undefined): void {
  if (!isObject(filter)) throw badFilter('is no object');
  const prototype: unknown = Object.getPrototypeOf(filter);
  // Of a URL or a map, no name would be seen.
  if (prototype !== Object.prototype && prototype !== null) throw badFilter('is no plain object');
  for (const name of Object.keys(filter)) {
    if (name === more) continue;
    if (!Object.hasOwn(WANTED, name)) throw badFilter(`has an unknown name: ${JSON.stringify(name)}`);
    const [wanted, fits] = WANTED[name as keyof JarFilter];
    if (!fits(filter[name])) throw badFilter(`has a ${name} that is not ${wanted}`);
  }
}

function badFilter(why: string): ValiseError {
  return new ValiseError('bad-filter', `The filter for the jar ${why}.`, {
    next: 'Give server, scope or key, or leave out what is not to be narrowed; without a filter everything is meant.',
  });
}

/** A host out of a URL or in whatever spelling; a path as it is. */
function serverName(text: string): string {
  if (/^[a-z][a-z0-9+.-]*:\/\//i.test(text)) {
    return URL.canParse(text) ? new URL(text).hostname.replace(/\.$/, '') : text;
  }
  return /[/\\\s#+]/.test(text) ? text : normalScope(text);
}
