import type { Json } from '../../json.ts';
import { type Attributes, type Dict, dict } from '../../wire/index.ts';
import type { Tally } from './tally.ts';

/** One piece of state as the jar holds it. Times are milliseconds since 1970. */
export interface Item {
  readonly value: Json;
  readonly size: number;
  /** The server that set it. */
  readonly from: string;
  readonly setAt: number;
  readonly expiresAt: number;
  readonly attributes: Attributes;
  /** Kept only where a `method-scope` decides when it goes along; all others go when the bag goes. */
  readonly usedAt?: number;
  /** `expiresAt` as the store knows it, where it has been renewed since. */
  readonly storedUntil?: number;
}

/** What has changed since the bag was last stored: the new item, or its removal. */
export interface Change {
  readonly item?: Item;
  /** A removal that gives way to an item set after this time: an eviction must not take what another process has just set. */
  readonly unlessSetAfter?: number;
}

/** What is the same about a bag all its life. */
export interface BagFacts {
  /** The server's name; with a dot before it where it holds what is valid for a whole domain. */
  readonly server: string;
  /** What one owner controls; see {@link Tally}. */
  readonly site: string;
  /** The kept session whose state this is; absent in bags of server scope. */
  readonly session?: string | undefined;
  /** True in bags of session scope; those of a kept session are so in any case. */
  readonly isSession?: boolean | undefined;
  /** False where the bag lives in memory alone. */
  readonly kept: boolean;
  readonly tally?: Tally | undefined;
}

/** State of one scope of one server, in the order in which it was set. */
export class Bag {
  readonly server: string;
  readonly site: string;
  readonly session: string | undefined;
  readonly isServerScope: boolean;
  readonly kept: boolean;
  /** When it last went with a request. */
  usedAt = 0;
  /** Rises with every change of what would be sent. */
  revision = 0;
  /** The store's version of what `items` started from; undefined where the store has none. */
  version: string | undefined;
  /** When the store was last asked, by the clock; 0 where never. */
  syncedAt = 0;
  changes = new Map<string, Change>();
  /** `usedAt` as the store knows it. */
  storedUse = 0;
  /** True once its session has ended. */
  over = false;
  /** Answers to requests of an earlier epoch change nothing here, or nothing under that name. */
  clearedEpoch = 0;
  readonly clearedKeys = new Map<string, number>();
  /** How many open connections look into it. */
  seats = 0;
  readonly #tally: Tally | undefined;
  readonly #items = new Map<string, Item>();
  #endsAt = Number.POSITIVE_INFINITY;
  #view: { readonly revision: number; readonly plain: Dict; readonly scoped: readonly string[] } | undefined;

  constructor({ server, site, session, isSession = false, kept, tally }: BagFacts) {
    this.server = server;
    this.site = site;
    this.session = session;
    this.isServerScope = session === undefined && !isSession;
    this.kept = kept;
    this.#tally = tally;
  }

  get items(): ReadonlyMap<string, Item> {
    return this.#items;
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
    if (this.kept) this.changes.set(name, { item });
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
    if (this.kept) this.changes.set(name, yielding ? { unlessSetAfter: item.setAt } : {});
  }

  /** Marks a name as removed that only the store may still have. */
  forget(name: string): void {
    if (this.#items.has(name)) this.remove(name);
    else if (this.kept) this.changes.set(name, {});
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

  /** Puts what the store holds in place, and what has changed here since on top of it. */
  rebase(stored: ReadonlyMap<string, Item>, version: string | undefined, usedAt: number): void {
    const before = this.#items.size;
    this.#items.clear();
    for (const [name, item] of stored) this.#items.set(name, item);
    for (const [name, { item, unlessSetAfter }] of this.changes) {
      const other = this.#items.get(name);
      if (unlessSetAfter !== undefined && other && other.setAt > unlessSetAfter) {
        this.changes.delete(name);
        continue;
      }
      this.#items.delete(name);
      if (item) this.#items.set(name, item);
    }
    this.version = version;
    this.storedUse = usedAt;
    this.usedAt = Math.max(this.usedAt, usedAt);
    this.#endsAt = 0;
    this.#changed(before);
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

  /** What goes with every request, and the names of what goes with some. */
  view(): { readonly plain: Dict; readonly scoped: readonly string[] } {
    if (this.#view?.revision === this.revision) return this.#view;
    const plain = dict();
    const scoped: string[] = [];
    for (const [name, { value, attributes }] of this.#items) {
      if (attributes.methodScope === undefined) plain[name] = value;
      else scoped.push(name);
    }
    this.#view = { revision: this.revision, plain, scoped };
    return this.#view;
  }

  #changed(before: number): void {
    this.revision++;
    this.#tally?.resized(this, this.#items.size - before);
  }
}
