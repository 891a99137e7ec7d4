import { type Dict, dict, type Scope } from '../../wire/index.ts';
import { siteOf } from '../identity.ts';
import type { Entry, SetName } from './entry.ts';

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
  /** When it was last sent with a request, and the same as the store has it. */
  usedAt = 0;
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
    for (const [name, { value, text, secure, attributes }] of this.#entries) {
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
