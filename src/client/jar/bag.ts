import { dict } from '../../wire/index.ts';
import { siteOf } from '../identity.ts';
import type { Change, Item, View } from './item.ts';
import type { Tally } from './tally.ts';

const UNSEEN: Change = { isUnseen: true };

/** Whoever has prepared something from what a bag holds. */
export interface Viewer {
  /** When it last sent what the bag holds. */
  readonly usedAt: number;
  /** Hears that the bag has changed. */
  changed(): void;
}

/** What is the same about a bag all its life. */
export interface BagFacts {
  /** The server's name; with a dot before it where it holds what is valid for a whole domain. */
  readonly server: string;
  /** The account that it is sent for; see `Account`. */
  readonly account: string;
  /** The kept session whose state this is. */
  readonly session: string | undefined;
  readonly isSession: boolean;
  /** False where the bag lives in memory alone. */
  readonly kept: boolean;
  readonly tally: Tally | undefined;
}

/** State of one scope of one server, in the order in which it was set. */
export class Bag {
  readonly server: string;
  readonly account: string;
  readonly session: string | undefined;
  readonly isServerScope: boolean;
  readonly kept: boolean;
  /** Rises with every change of what would be sent. */
  revision = 0;
  /** The store's version of what `items` started from; undefined where the store has none. */
  version: string | undefined;
  /** When the store was last asked, by the clock; 0 where never. */
  syncedAt = 0;
  /** `usedAt` as the store knows it. */
  storedUse = 0;
  /** True once its session has ended. */
  over = false;
  // What most bags of a large jar never need is made where it is needed.
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

  /** What one owner controls; see {@link Tally}. */
  get site(): string {
    return siteOf(this.server.replace(/^\./, ''));
  }

  get items(): ReadonlyMap<string, Item> {
    return this.#items;
  }

  /** What has changed since it was last stored. */
  get hasChanges(): boolean {
    return this.#changes !== undefined && this.#changes.size > 0;
  }

  /** True where an open connection looks into it. */
  get isWatched(): boolean {
    return this.#viewers !== undefined && this.#viewers.size > 0;
  }

  /** When it last went with a request. */
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

  /** When the first of its items ends. */
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

  /** As {@link set} where only the times differ: nothing that is sent changes, and the store need not hurry. */
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

  /** Removes what another process may have set, where it is not known here; false where nobody else can have. */
  removeUnseen(name: string): boolean {
    if (!this.kept) return false;
    this.#note(name, UNSEEN);
    return true;
  }

  /** True where the store is to be asked before it is written to. */
  get removesUnseen(): boolean {
    for (const { isUnseen } of this.#changes?.values() ?? []) if (isUnseen) return true;
    return false;
  }

  /** The store has been asked, and holds no more than is known here. */
  foundNothing(): void {
    for (const [name, { isUnseen }] of this.#changes ?? []) if (isUnseen) this.#changes?.delete(name);
  }

  /** Answers to requests of an earlier epoch change nothing here from now on, or nothing under that name. */
  markCleared(epoch: number, name?: string): void {
    if (name === undefined) this.#clearedEpoch = epoch;
    else (this.#clearedKeys ??= new Map()).set(name, epoch);
  }

  /** True where the answer to a request of this epoch comes too late. */
  wasClearedAfter(epoch: number, name: string): boolean {
    return Math.max(this.#clearedEpoch, this.#clearedKeys?.get(name) ?? 0) > epoch;
  }

  /** Removes what is over. */
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

  /** What is to be stored now; where that fails, give it to {@link putBack}. */
  takeChanges(): ReadonlyMap<string, Change> {
    const changes = this.#changes ?? new Map();
    this.#changes = undefined;
    return changes;
  }

  /** Takes back changes that were not stored; newer ones go on counting. */
  putBack(changes: ReadonlyMap<string, Change>): void {
    this.#changes = new Map([...changes, ...(this.#changes ?? [])]);
  }

  /**
   * Puts what the store holds in place, and what has changed here since on top of it; true where something was set here.
   * The bag takes `stored` over.
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

  /** When an item was last of use. */
  usedAtOf({ setAt, usedAt, attributes }: Item): number {
    return Math.max(setAt, attributes.methodScope === undefined ? this.usedAt : (usedAt ?? 0));
  }

  /** The item that was of use the longest ago. */
  stalest(): { readonly name: string; readonly used: number; readonly set: number } | undefined {
    let found: { readonly name: string; readonly used: number; readonly set: number } | undefined;
    for (const [name, item] of this.#items) {
      const used = this.usedAtOf(item);
      if (!found || used < found.used || (used === found.used && item.setAt < found.set))
        found = { name, used, set: item.setAt };
    }
    return found;
  }

  /** The names of the `count` items that were of use the longest ago. */
  oldest(count: number): string[] {
    const ranked = [...this.#items].map(([name, item]) => ({
      name,
      used: this.usedAtOf(item),
      set: item.setAt,
    }));
    // The sort is stable: of items set at once, the one named first goes first.
    ranked.sort((a, b) => a.used - b.used || a.set - b.set);
    return ranked.slice(0, count).map(({ name }) => name);
  }

  /** True where a `method-scope` decides when some of it goes along. */
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
