import { ValiseError } from '../../core/errors.ts';
import { isObject, type Json } from '../../core/json.ts';
import { rawMark } from '../../edge/drafts.ts';
import { isUsable } from '../../wire/extension-version.ts';
import {
  type Attributes,
  type Dict,
  dict,
  type Meta,
  methodPath,
  type Request,
  type Scope,
  scopeCovers,
  writeState,
} from '../../wire/index.ts';
import type { Spelling } from '../../wire/spelling.ts';
import { type Identity, normalScope, siteOf } from '../identity/identity.ts';
import type { JarFilter } from './types.ts';

/** One entry of the jar. Times are in milliseconds since 1970. */
export interface Entry {
  readonly value: Json;
  /** The JSON text of the value, if `value` cannot represent its numbers exactly. */
  readonly text?: string | undefined;
  /** True if it arrived over an encrypted connection. It is never sent over an unencrypted one. */
  readonly secure?: boolean | undefined;
  readonly size: number;
  /** The server that set it. */
  readonly from: string;
  readonly setAt: number;
  readonly expiresAt: number;
  readonly attributes: Attributes;
  /** The request whose response set it: its method and, for a tool, prompt or resource, the name. */
  readonly by?: string | undefined;
  /** The version of `dev.valise/state` that it was set with, `MAJOR.MINOR`. Absent means 1.0. */
  readonly version?: string | undefined;
  /** Set only if a `method-scope` decides when the entry is sent. All other entries are sent whenever their set is. */
  readonly usedAt?: number;
  /** The stored `expiresAt`, if the entry has been renewed since. */
  readonly storedUntil?: number;
}

/** Identifies a set of entries, which is one record of the store. */
export interface SetName {
  /** The server's name, with a leading dot if the entries are valid for a whole domain. */
  readonly server: string;
  /** The account that the entries are sent for; see `Account`. */
  readonly account: string;
  /** The stored session that the entries belong to. */
  readonly session: string | undefined;
}

/** The attributes of state that has none. */
export const NONE: Attributes = Object.freeze({});

/** A change that is not stored yet: a new entry, or a removal. */
interface Change {
  readonly entry?: Entry;
  /** A removal yields to an entry set after this time, so that an eviction does not remove what another process has just set. */
  readonly unlessSetAfter?: number;
}

/** How the entries of a set are sent. */
interface Sending {
  /** The values that are sent unchanged with every request. */
  readonly plain: Dict;
  /** The names of entries that depend on the request or the transport: they have a `method-scope` or an exact text. */
  readonly conditional: readonly string[];
  /** Whether some entries must not be sent over an unencrypted connection. */
  readonly hasSecure: boolean;
}

/** An entry and when it was last used. */
export interface Ranked {
  readonly set: EntrySet;
  readonly name: string;
  readonly usedAt: number;
  readonly setAt: number;
}

/** Compares entries, least recently used first. */
export function byUse(one: Ranked, other: Ranked): number {
  return one.usedAt - other.usedAt || one.setAt - other.setAt;
}

/** The properties of a set that never change. */
export interface SetFacts extends SetName {
  readonly scope: Scope;
  /** Whether the set is stored. If false, it exists only in memory. */
  readonly isStored: boolean;
  /** Counts the entries of all sets with a common quota. */
  readonly counter: { total: number } | undefined;
}

/** The entries of one scope of one server, in the order in which they were set, and the changes to store. */
export class EntrySet {
  readonly server: string;
  readonly account: string;
  readonly session: string | undefined;
  readonly scope: Scope;
  readonly isStored: boolean;
  /** The store version that the entries come from. Undefined if the store has none. */
  version: string | undefined;
  /** When the set was last read from the store, in milliseconds since 1970, or 0 if never. */
  syncedAt = 0;
  /** The read of a stale set that is in progress. Requests wait for it. */
  reading: Promise<void> | undefined;
  /** When it was last sent with a request. */
  usedAt = 0;
  /** The stored {@link usedAt}. */
  storedUse = 0;
  /** When the first of its entries may expire. */
  endsAt = Number.POSITIVE_INFINITY;
  /** The number of open connections that use it. */
  connections = 0;
  /** Whether its session has ended. */
  isOver = false;
  readonly #counter: { total: number } | undefined;
  #entries = new Map<string, Entry>();
  #changes: Map<string, Change> | undefined;
  #clearedEpoch = 0;
  #clearedKeys: Map<string, number> | undefined;
  #sending: Sending | undefined;
  #site: string | undefined;

  constructor({ server, account, session, scope, isStored, counter }: SetFacts) {
    this.server = server;
    this.account = account;
    this.session = session;
    this.scope = scope;
    this.isStored = isStored;
    this.#counter = counter;
  }

  /** The site that one owner controls; see `Identity.site`. */
  get site(): string {
    return (this.#site ??= siteOf(this.server.replace(/^\./, '')));
  }

  get entries(): ReadonlyMap<string, Entry> {
    return this.#entries;
  }

  /** Whether it has changes that are not stored yet. */
  get hasChanges(): boolean {
    return this.#changes !== undefined && this.#changes.size > 0;
  }

  set(name: string, entry: Entry): void {
    const before = this.#entries.size;
    this.#entries.delete(name);
    this.#entries.set(name, entry);
    this.endsAt = Math.min(this.endsAt, entry.expiresAt);
    this.#changed(before);
    this.#note(name, { entry });
  }

  /** Like {@link set}, if only the times differ. The sent data does not change, so the store write can wait. */
  renew(name: string, entry: Entry): void {
    this.#entries.set(name, entry);
  }

  /** Removes an entry. Another process may have set one that is unknown here, so the store decides then. */
  remove(name: string, { yielding = false }: { readonly yielding?: boolean } = {}): void {
    const entry = this.#entries.get(name);
    if (entry) {
      const before = this.#entries.size;
      this.#entries.delete(name);
      this.#changed(before);
    }
    this.#note(name, yielding && entry ? { unlessSetAfter: entry.setAt } : {});
  }

  /** Removes expired entries and returns them. */
  expire(now: number): [name: string, entry: Entry][] {
    const expired = [...this.#entries].filter(([, { expiresAt }]) => expiresAt <= now);
    for (const [name] of expired) this.remove(name, { yielding: true });
    this.endsAt = Number.POSITIVE_INFINITY;
    for (const { expiresAt } of this.#entries.values()) this.endsAt = Math.min(this.endsAt, expiresAt);
    return expired;
  }

  /** Marks the set, or one name, as cleared. Responses to requests of an earlier epoch no longer change it. */
  markCleared(epoch: number, name?: string): void {
    if (name === undefined) this.#clearedEpoch = epoch;
    else (this.#clearedKeys ??= new Map()).set(name, epoch);
  }

  /** Whether the response to a request of this epoch is too late. */
  wasClearedAfter(epoch: number, name: string): boolean {
    return Math.max(this.#clearedEpoch, this.#clearedKeys?.get(name) ?? 0) > epoch;
  }

  /**
   * Replaces the entries with those in the store and reapplies the changes that are not stored yet. The set takes
   * ownership of `stored`.
   */
  rebase(
    stored: Map<string, Entry>,
    version: string | undefined,
    usedAt: number,
  ): { readonly hasEffect: boolean; readonly hasGrown: boolean } {
    const before = this.#entries.size;
    let [hasEffect, hasGrown] = [false, false];
    for (const [name, { entry, unlessSetAfter }] of this.#changes ?? []) {
      const other = stored.get(name);
      if (unlessSetAfter !== undefined && other && other.setAt > unlessSetAfter) {
        this.#changes?.delete(name);
        continue;
      }
      if (stored.delete(name)) hasEffect = true;
      if (!entry) continue;
      stored.set(name, entry);
      hasEffect = hasGrown = true;
    }
    this.#entries = stored;
    this.version = version;
    this.storedUse = usedAt;
    this.usedAt = Math.max(this.usedAt, usedAt);
    this.endsAt = 0;
    this.#changed(before);
    return { hasEffect, hasGrown };
  }

  /** Returns the changes that are being stored. Pass them to {@link stored} if that succeeds. */
  changes(): ReadonlyMap<string, Change> {
    return new Map(this.#changes);
  }

  /** Forgets changes that are stored now, except those that were made again meanwhile. */
  stored(changes: ReadonlyMap<string, Change>): void {
    for (const [name, change] of changes) if (this.#changes?.get(name) === change) this.#changes.delete(name);
  }

  /** Returns when an entry was last used. */
  usedAtOf({ setAt, usedAt, attributes }: Entry): number {
    return Math.max(setAt, attributes.methodScope === undefined ? this.usedAt : (usedAt ?? 0));
  }

  /** Returns the `count` least recently used entries. */
  oldest(count: number): Ranked[] {
    const ranked = Array.from(this.#entries, ([name, entry]): Ranked => {
      return { set: this, name, usedAt: this.usedAtOf(entry), setAt: entry.setAt };
    });
    // The sort is stable: of entries set at the same time, the first in order is evicted first.
    return ranked.sort(byUse).slice(0, count);
  }

  /** Returns how the entries are sent. */
  sending(): Sending {
    if (this.#sending) return this.#sending;
    const plain = dict();
    const conditional: string[] = [];
    let hasSecure = false;
    for (const [name, { value, text, secure, version, attributes }] of this.#entries) {
      // A later release set it with a version that this one does not support, and will send it.
      if (version !== undefined && !isUsable('state', version)) continue;
      hasSecure ||= secure === true;
      if (attributes.methodScope !== undefined || text !== undefined) conditional.push(name);
      else plain[name] = value;
    }
    this.#sending = { plain, conditional, hasSecure };
    return this.#sending;
  }

  #changed(before: number): void {
    this.#sending = undefined;
    if (this.#counter) this.#counter.total += this.#entries.size - before;
  }

  #note(name: string, change: Change): void {
    if (this.isStored) (this.#changes ??= new Map()).set(name, change);
  }
}

/** The properties of a view that never change. */
export interface ViewFacts {
  readonly identity: Identity;
  /** The account that state is sent for; see `Account`. */
  readonly account: string;
  /** Whether the transport reads and writes numbers exactly. */
  readonly exact: boolean;
  /** The server-scope sets: the host's own first, then those of its parent domains, narrowest first. */
  readonly sets: readonly EntrySet[];
}

/** One connection's view of the jar: the entries of its server and of its session. */
export class JarView {
  readonly identity: Identity;
  readonly account: string;
  readonly exact: boolean;
  readonly sets: readonly EntrySet[];
  /** The session-scope set, for requests that belong to no session of their own. */
  session: EntrySet;
  /** The object that has the id of the transport's session, once there is a connection. */
  transport: { readonly sessionId?: string | undefined } | undefined;
  /** The id of the transport's session that {@link session} belongs to. */
  transportSession: string | undefined;

  constructor({ identity, account, exact, sets }: ViewFacts, session: EntrySet) {
    this.identity = identity;
    this.account = account;
    this.exact = exact;
    this.sets = sets;
    this.session = session;
    for (const set of sets) set.connections++;
  }

  /**
   * Returns the `_meta` fragment to send with a request. If two sets have the same name, the narrower one wins. `initialize`
   * is sent before there is a session.
   */
  pick(request: Request, spelling: Spelling['state'], session: EntrySet): Meta | undefined {
    const now = Date.now();
    let own: Dict | undefined;
    let server: Dict | undefined;
    session.usedAt = now;
    if (session.entries.size > 0 && request.method !== 'initialize') own = this.#sent(session, request, now);
    for (const set of this.sets) {
      set.usedAt = now;
      const sent = set.entries.size > 0 ? this.#sent(set, request, now) : undefined;
      if (sent) server = server ? Object.assign(dict(), sent, server) : sent;
    }
    return own || server ? writeState(spelling, { session: own, server }) : undefined;
  }

  /** Returns the entries of a set to send with a request. */
  #sent(set: EntrySet, { method, params }: Request, now: number): Dict {
    const { plain, conditional, hasSecure } = set.sending();
    const isOpen = hasSecure && this.identity.secure === false;
    if (conditional.length === 0 && !isOpen) return plain;
    const all = Object.assign(dict(), plain);
    const path = methodPath(method, params);
    for (const name of conditional) {
      const entry = set.entries.get(name);
      // If the transport cannot write the text, a number would arrive changed.
      if (!entry || (entry.text !== undefined && !this.exact)) continue;
      const { methodScope } = entry.attributes;
      if (methodScope !== undefined && !scopeCovers(methodScope, path)) continue;
      all[name] = entry.text === undefined ? entry.value : rawMark(entry.text);
      if (methodScope !== undefined) set.renew(name, { ...entry, usedAt: now });
    }
    // As with a Secure cookie, entries that arrived over https are not sent over http, where anyone on the path can read
    // them.
    if (isOpen) for (const name in all) if (set.entries.get(name)?.secure) delete all[name];
    return all;
  }
}

/** The longest name that is shown in full. Stored names are limited by the quota for a key. */
const MAX_SHOWN = 1024;

/** Truncates a name for display, because a server may send one of any length. */
export function shortened(name: string): string {
  return name.length > MAX_SHOWN ? `${name.slice(0, MAX_SHOWN)}…` : name;
}

/** Parses a text. Returns undefined if it is not JSON, because the text is sent unchanged, or if it is null. */
export function parsed(text: string): Json | undefined {
  try {
    return (JSON.parse(text) as Json) ?? undefined;
  } catch {
    return undefined;
  }
}

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
  const isServer = (one: string): boolean => name === undefined || one === name || one.startsWith(`${name}#`);
  const matches = (its: Scope, itsKey: string, { from, attributes }: Entry): boolean =>
    (scope === undefined || its === scope) &&
    (key === undefined || itsKey === key) &&
    (isServer(from) ||
      (its === 'server' && attributes.serverScope !== undefined && within(attributes.serverScope)));
  return Object.assign(matches, {
    covers: (set: string) =>
      set.startsWith('.') ? within(set.slice(1)) || name === undefined : isServer(set),
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
  if (!isObject(filter)) throw badFilter('is not an object');
  const prototype: unknown = Object.getPrototypeOf(filter);
  // The names of a URL or a map would not be visible.
  if (prototype !== Object.prototype && prototype !== null) throw badFilter('is not a plain object');
  for (const name of Object.keys(filter)) {
    if (name === more) continue;
    if (!Object.hasOwn(WANTED, name)) throw badFilter(`has an unknown name: ${JSON.stringify(name)}`);
    const [wanted, fits] = WANTED[name as keyof JarFilter];
    if (!fits(filter[name])) throw badFilter(`has a ${name} that is not ${wanted}`);
  }
}

function badFilter(why: string): ValiseError {
  return new ValiseError('invalid-argument', `The filter for the jar ${why}.`, {
    next: 'Pass server, scope or key. An empty filter selects everything.',
  });
}

/** Returns the normalized host of a URL or a name. Returns a path unchanged. */
function serverName(text: string): string {
  if (/^[a-z][a-z0-9+.-]*:\/\//i.test(text)) {
    return URL.canParse(text) ? new URL(text).hostname.replace(/\.$/, '') : text;
  }
  return /[/\\\s#+]/.test(text) ? text : normalScope(text);
}
