import type { Scope } from '../../wire/index.ts';
import { normalScope } from '../identity.ts';
import type { Item } from './bag.ts';
import type { JarFilter } from './types.ts';

/** Tells whether a piece of state is meant by a filter. */
export interface Matcher {
  (scope: Scope, key: string, item: Item): boolean;
  /** True where state of a bag of this name might be meant. */
  covers(bag: string): boolean;
}

/** Prepares a filter. A server is meant by its name, its URL or its path, and with it all that would be sent to it. */
export function matcher({ server, scope, key }: JarFilter): Matcher {
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
  });
}

/** A host out of a URL or in whatever spelling; a path as it is. */
function serverName(text: string): string {
  if (/^[a-z][a-z0-9+.-]*:\/\//i.test(text)) {
    return URL.canParse(text) ? new URL(text).hostname.replace(/\.$/, '') : text;
  }
  return /[/\\\s#+]/.test(text) ? text : normalScope(text);
}
