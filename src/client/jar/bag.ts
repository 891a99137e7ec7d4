import { dict } from '../../wire/index.ts';
import { siteOf } from '../identity.ts';
import type { Change, Item, View } from './item.ts';
import type { Tally } from './tally.ts';

const UNSEEN: Change = { isUnseen: true };

/** An observer that caches data derived from a bag. */
export interface Viewer {
  /** When it last sent the bag's items. */
  readonly usedAt: number;
  /** Called when the bag has changed. */
  changed(): void;
}

/** The properties of a bag that never change. */
export interface BagFacts {
  /** The server's name, with a leading dot if the items are valid for a whole domain. */
  readonly server: string;
  /** The account that the items are sent for; see `Account`. */
  readonly account: string;
  /** The stored session that the items belong to. */
  readonly session: string | undefined;
  readonly isSession: boolean;
  /** Whether the bag is stored. If false, it exists only in memory. */
  readonly kept: boolean;
  readonly tally: Tally | undefined;
}

/** The state of one scope of one server, in the order in which it was set. */
export class Bag {
  readonly server: string;
  readonly account: string;
  readonly session: string | undefined;
  readonly isServerScope: boolean;
  readonly kept: boolean;
  /** Increases with every change to what would be sent. */
  revision = 0;
  /** The store version that `items` started from. Undefined if the store has none. */
  version: string | undefined;
  /** When the bag was last read from the store, in milliseconds since 1970, or 0 if never. */
  syncedAt = 0;
  /** The `usedAt` that the store has. */
  storedUse = 0;
  /** Whether its session has ended. */
  over = false;
  // Fields that most bags of a large jar never need are created on first use.
  readonly #tally: Tally | undefined;
  #items: Map<string, Item> = new Map();
  #changes: Map<string, Change> | undefined;
  #viewers: Set<Viewer> | undefined;
  #usedAt = 0;
  #endsAt = Number.POSITIVE_INFINITY;
  #clearedEpoch = 0;
  #clearedKeys: Map<string, number> | undefined;
  #view: (View & { readonly revision: number }) | undefined;

  constructor({ server, account, session, isSession, kept, tally }: BagFacts) {
    this.server = server;
    this.account = account;
    this.session = session;
    this.isServerScope = !isSession;
    this.kept = kept;
    this.#tally = tally;
  }

  /** The site that one owner controls; see {@link Tally}. */
  get site(): string {
    return siteOf(this.server.replace(/^\./, ''));
  }

  get items(): ReadonlyMap<string, Item> {
    return this.#items;
  }

  /** Whether it has changed since it was last stored. */
  get hasChanges(): boolean {
    return this.#changes !== undefined && this.#changes.size > 0;
  }

  /** Whether an open connection uses it. */
  get isWatched(): boolean {
    return this.#viewers !== undefined && this.#viewers.size > 0;
  }

  /** When it was last sent with a request. */
  get usedAt(): number {
    let latest = this.#usedAt;
    if (this.#viewers) for (const { usedAt } of this.#viewers) latest = Math.max(latest, usedAt);
    return latest;
  }

  set usedAt(time: number) {
    this.#usedAt = time;
  }

  watch(viewer: Viewer): void {
    this.#viewers ??= new Set();
    this.#viewers.add(viewer);
  }

  unwatch(viewer: Viewer): void {
    this.#usedAt = this.usedAt;
    this.#viewers?.delete(viewer);
  }

  /** When the first of its items expires. */
  get endsAt(): number {
    return this.#endsAt;
  }

  set(name: string, item: Item): void {
    const before = this.#items.size;
    this.#items.delete(name);
    this.#items.set(name, item);
    this.#endsAt = Math.min(this.#endsAt, item.expiresAt);
    this.#changed(before);
    this.#note(name, { item });
  }

  /** Like {@link set}, if only the times differ. The sent data does not change, so the store write can wait. */
  renew(name: string, item: Item): void {
    this.#items.set(name, item);
  }

  remove(name: string, { yielding = false }: { readonly yielding?: boolean } = {}): void {
    const item = this.#items.get(name);
    if (!item) return;
    const before = this.#items.size;
    this.#items.delete(name);
    this.#changed(before);
    this.#note(name, yielding ? { unlessSetAfter: item.setAt } : {});
  }

  /** Removes an entry unknown here that another process may have set. Returns false if no other process can have set it. */
  removeUnseen(name: string): boolean {
    if (!this.kept) return false;
    this.#note(name, UNSEEN);
    return true;
  }

  /** Whether the store must be read before it is written. */
  get removesUnseen(): boolean {
    for (const { isUnseen } of this.#changes?.values() ?? []) if (isUnseen) return true;
    return false;
  }

  /** Drops removals of unknown entries, because the store holds no more than is known here. */
  foundNothing(): void {
    for (const [name, { isUnseen }] of this.#changes ?? []) if (isUnseen) this.#changes?.delete(name);
  }

  /** Marks the bag, or one name, as cleared. Responses to requests of an earlier epoch no longer change it. */
  markCleared(epoch: number, name?: string): void {
    if (name === undefined) this.#clearedEpoch = epoch;
    else (this.#clearedKeys ??= new Map()).set(name, epoch);
  }

  /** Whether the response to a request of this epoch is too late. */
  wasClearedAfter(epoch: number, name: string): boolean {
    return Math.max(this.#clearedEpoch, this.#clearedKeys?.get(name) ?? 0) > epoch;
  }

  /** Removes expired items and returns them. */
  expire(now: number): { readonly name: string; readonly from: string }[] {
    if (now < this.#endsAt) return [];
    const gone: { readonly name: string; readonly from: string }[] = [];
    let endsAt = Number.POSITIVE_INFINITY;
    for (const [name, { expiresAt, from }] of this.#items) {
      if (expiresAt <= now) gone.push({ name, from });
      else endsAt = Math.min(endsAt, expiresAt);
    }
    for (const { name } of gone) this.remove(name, { yielding: true });
    this.#endsAt = endsAt;
    return gone;
  }

  /** Takes the changes to store. If storing fails, pass them to {@link putBack}. */
  takeChanges(): ReadonlyMap<string, Change> {
    const changes = this.#changes ?? new Map();
    this.#changes = undefined;
    return changes;
  }

  /** Restores changes that could not be stored. Newer changes take precedence. */
  putBack(changes: ReadonlyMap<string, Change>): void {
    this.#changes = new Map([...changes, ...(this.#changes ?? [])]);
  }

  /**
   * Replaces the items with those in the store and reapplies local changes. Returns true if a local change set an item. The
   * bag takes ownership of `stored`.
   */
  rebase(stored: Map<string, Item>, version: string | undefined, usedAt: number): boolean {
    const before = this.#items.size;
    let grown = false;
    this.#items = stored;
    for (const [name, { item, unlessSetAfter, isUnseen }] of this.#changes ?? []) {
      const other = stored.get(name);
      if (unlessSetAfter !== undefined && other && other.setAt > unlessSetAfter) {
        this.#changes?.delete(name);
        continue;
      }
      if (isUnseen) {
        if (other) this.#changes?.set(name, {});
        else this.#changes?.delete(name);
      }
      stored.delete(name);
      if (!item) continue;
      stored.set(name, item);
      grown = true;
    }
    this.version = version;
    this.storedUse = usedAt;
    this.#usedAt = Math.max(this.#usedAt, usedAt);
    this.#endsAt = 0;
    this.#changed(before);
    return grown;
  }

  /** Returns when an item was last used. */
  usedAtOf({ setAt, usedAt, attributes }: Item): number {
    return Math.max(setAt, attributes.methodScope === undefined ? this.usedAt : (usedAt ?? 0));
  }

  /** Returns the least recently used item. */
  stalest(): { readonly name: string; readonly used: number; readonly set: number } | undefined {
    let found: { readonly name: string; readonly used: number; readonly set: number } | undefined;
    for (const [name, item] of this.#items) {
      const used = this.usedAtOf(item);
      if (!found || used < found.used || (used === found.used && item.setAt < found.set))
        found = { name, used, set: item.setAt };
    }
    return found;
  }

  /** Returns the names of the `count` least recently used items. */
  oldest(count: number): string[] {
    const ranked = [...this.#items].map(([name, item]) => ({
      name,
      used: this.usedAtOf(item),
      set: item.setAt,
    }));
    // The sort is stable: of items set at the same time, the first in order is evicted first.
    ranked.sort((a, b) => a.used - b.used || a.set - b.set);
    return ranked.slice(0, count).map(({ name }) => name);
  }

  /** Whether some items have a `method-scope`, which decides when they are sent. */
  get isScoped(): boolean {
    return this.view().scoped.length > 0;
  }

  view(): View {
    if (this.#view?.revision === this.revision) return this.#view;
    const plain = dict();
    const scoped: string[] = [];
    const exact: string[] = [];
    let hasSecure = false;
    for (const [name, { value, text, secure, attributes }] of this.#items) {
      hasSecure ||= secure === true;
      if (attributes.methodScope !== undefined) scoped.push(name);
      else if (text === undefined) plain[name] = value;
      else exact.push(name);
    }
    this.#view = { revision: this.revision, plain, scoped, exact, hasSecure };
    return this.#view;
  }

  #changed(before: number): void {
    this.revision++;
    this.#tally?.resized(this, this.#items.size - before);
    if (this.#viewers) for (const viewer of this.#viewers) viewer.changed();
  }

  #note(name: string, change: Change): void {
    if (this.kept) (this.#changes ??= new Map()).set(name, change);
  }
}
