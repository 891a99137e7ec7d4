import type { Store } from '../../store/types.ts';
import { readState, type Scope } from '../../wire/index.ts';
import { closedError } from '../closed.ts';
import type { ClientEventSource } from '../events.ts';
import type { Identity, NoIdentity } from '../identity.ts';
import { type Absorber, absorb, type Origin } from './absorb.ts';
import { Bag } from './bag.ts';
import { enforce } from './enforce.ts';
import { readExport } from './import.ts';
import { Keeper } from './keeper.ts';
import { told } from './problem-detail.ts';
import { readQuotas } from './quotas.ts';
import { Seat, type SeatFacts } from './seat.ts';
import type { StoredBag } from './stored.ts';
import { Tally } from './tally.ts';
import type { JarImported, JarQuotas } from './types.ts';

/** Options for {@link Shelf}. */
export interface ShelfOptions {
  readonly store: Store;
  readonly principal: string;
  readonly events: ClientEventSource;
  readonly quotas?: JarQuotas | undefined;
}

/** The bags of one principal. All are in memory, so a request waits for the store only if a bag was not read recently. */
export class Shelf {
  readonly #bags = new Map<string, Bag>();
  readonly #seats = new Set<Seat>();
  readonly #keeper: Keeper;
  readonly #absorber: Absorber;
  #epoch = 0;
  #closed = false;

  constructor({ store, principal, events, quotas }: ShelfOptions) {
    this.#keeper = new Keeper(store, principal, events, (bag) => this.#trim(bag));
    this.#absorber = { events, quotas: readQuotas(quotas), tally: new Tally(() => this.#bags.values()) };
  }

  /** Increases when something is cleared. Responses to requests of an earlier epoch do not restore it. */
  get epoch(): number {
    return this.#epoch;
  }

  /** Starts a new epoch. */
  turn(): number {
    return ++this.#epoch;
  }

  /** Returns every bag, including those of sessions that are not stored. */
  all(): Bag[] {
    this.#checkOpen();
    for (const seat of this.#seats) if (!seat.session.kept) this.follow(seat);
    const own = [...this.#seats].map((seat) => seat.session).filter((bag) => !bag.kept);
    return [...this.#bags.values(), ...own];
  }

  /** Removes the expired items of a bag. */
  expire(bag: Bag, now: number): void {
    if (now < bag.endsAt) return;
    const scope = bag.isServerScope ? 'server' : 'session';
    for (const { name, from } of bag.expire(now))
      this.#absorber.events.emit('deleted', { server: from, scope, key: name, by: 'expiry' });
  }

  /** Stores all changes. */
  async save(): Promise<void> {
    const changed = [...this.#bags.values()].filter((bag) => bag.hasChanges);
    await Promise.all(changed.map((bag) => this.#keeper.save(bag)));
  }

  /** Imports exported entries, except those that are not newer than the existing ones. */
  async import(exported: unknown): Promise<JarImported> {
    const { items, refused } = readExport(exported, this.#absorber.quotas.bytesPerKey);
    await this.refresh();
    const grown = new Set<Bag>();
    let imported = 0;
    for (const { bag: of, scope, key, item } of items) {
      const id = idOf(of.server, of.account, of.session);
      const bag = this.#bags.get(id) ?? this.#add(of.server, of.account, of.session, true);
      if ((bag.items.get(key)?.setAt ?? Number.NEGATIVE_INFINITY) >= item.setAt) {
        refused.push({ server: item.from, key, detail: 'What is kept is not older.' });
        continue;
      }
      bag.set(key, item);
      grown.add(bag);
      imported += 1;
      this.#absorber.events.emit('set', { server: item.from, scope, key, size: item.size });
    }
    for (const bag of grown) this.#trim(bag);
    await this.save();
    return { imported, refused };
  }

  /** Deletes stored entries that cannot be read. Returns how many. */
  dropUnreadable(server: string | undefined, scope: Scope | undefined): Promise<number> {
    return this.#keeper.dropUnreadable(server, scope);
  }

  /** Loads the changes of other processes. */
  async refresh(): Promise<void> {
    this.#checkOpen();
    const fresh = new Set<Bag>();
    const changed = new Set<Bag>();
    await this.#keeper.load((stored, version) => {
      const bag = this.#restore(stored, version);
      (bag.version === version ? fresh : changed).add(bag);
    });
    // Another process has cleared the bags that are no longer there.
    for (const bag of this.#bags.values()) {
      if (bag.version !== undefined && !fresh.has(bag)) changed.add(bag);
    }
    await Promise.all(Array.from(changed, (bag) => this.#keeper.refresh(bag)));
  }

  /** Loads the changes of other processes for a new connection. */
  async open(seat: Seat): Promise<void> {
    await Promise.all(seat.bags.map((bag) => this.#keeper.refreshOrWarn(bag)));
  }

  seat(identity: Identity, facts: SeatFacts): Seat {
    const { name, scopes, local } = identity;
    const names = [name, ...(local ? [] : scopes.map((scope) => `.${scope}`))];
    const bags = names.map((server) => this.#bag(server, identity, facts.account));
    const seat = new Seat(identity, facts, bags, this.#newSession(name, facts.account), (bag, now) => {
      this.expire(bag, now);
      return Math.min(this.#keeper.refreshIfAging(bag, now), bag.endsAt);
    });
    this.#seats.add(seat);
    return seat;
  }

  /** Applies the state in a result. Returns a promise if its bags must be stored before the result is delivered. */
  take(meta: unknown, origin: Origin): Promise<void> | undefined {
    const changed = absorb(meta, origin, this.#absorber);
    if (!changed) return undefined;
    const kept = [...changed].filter((bag) => bag.kept);
    return kept.length > 0 ? this.#keeper.saveBehind(kept) : undefined;
  }

  /** Reports state that was rejected because it may not be kept for the server. */
  refuse(meta: unknown, { name, refused }: NoIdentity): void {
    const { events } = this.#absorber;
    if (!events.has('refused')) return;
    const { session, server } = readState(meta);
    for (const [scope, update] of [
      ['session', session],
      ['server', server],
    ] as const) {
      for (const key in update)
        events.emit('refused', { server: name, scope, key: told(key), reason: 'server', detail: refused });
    }
  }

  /** Starts a new session if the id of the transport's session is gone or has changed, because it may end without notice. */
  follow(seat: Seat): void {
    const now = seat.transport?.sessionId;
    if (now === seat.transportSession) return;
    if (seat.transportSession !== undefined) this.beginSession(seat);
    seat.transportSession = now;
  }

  /** Starts a new session with the server, and deletes the state of the previous one. */
  beginSession(seat: Seat): void {
    const before = seat.session;
    seat.session = this.#newSession(seat.identity.name, seat.account);
    this.#end(before);
    if (before.kept) void this.#keeper.saveBehind([before]);
  }

  /**
   * Binds the session-scope state of a connection to a session that outlives the connection. The state is stored and found
   * again under `key`. Without a key, the state belongs to the connection again.
   */
  async bindSession(seat: Seat, key: string | undefined): Promise<void> {
    const before = seat.session;
    const bag =
      key === undefined ? this.#newSession(seat.identity.name, seat.account) : this.keptSession(seat, key);
    await this.#keeper.refreshOrWarn(bag);
    if (bag === before) return;
    // State set by the session's first responses already belongs to the session.
    if (!before.kept && before.items.size > 0) {
      for (const [name, item] of before.items) bag.set(name, item);
      this.#trim(bag);
    }
    seat.session = bag;
    if (bag.kept && bag.hasChanges) await this.#keeper.save(bag);
  }

  /** Returns the bag of a stored session. Await {@link ready} before using it. */
  keptSession({ identity, account }: Seat, key: string): Bag {
    return this.#bag(identity.name, identity, account, key);
  }

  /** Moves session-scope state to the account that the user of a connection has signed in to. */
  move(from: Seat, to: Seat): void {
    const { session: before } = from;
    if (before.session !== undefined) to.session = this.keptSession(to, before.session);
    for (const [name, item] of before.items) {
      to.session.set(name, item);
      before.remove(name);
    }
    to.transport = from.transport;
    to.transportSession = from.transportSession;
    this.leave(from);
    void this.#keeper.saveBehind([before, to.session]);
  }

  /** Ends these sessions with a server after the user signed out, and forgets accounts that nobody can sign in to again. */
  async signOut(server: string, sessions: readonly string[], accounts: readonly string[]): Promise<boolean> {
    await this.refresh();
    const isOver = (bag: Bag): boolean =>
      bag.server === server && bag.session !== undefined && sessions.includes(bag.session);
    const isLost = (bag: Bag): boolean => bag.account.split('.').some((part) => accounts.includes(part));
    const gone = [...this.#bags.values()].filter((bag) => isOver(bag) || isLost(bag));
    for (const bag of gone) {
      for (const seat of this.#seats)
        if (seat.session === bag) seat.session = this.#newSession(seat.identity.name, seat.account);
      if (bag.isServerScope) for (const name of bag.items.keys()) bag.remove(name);
      else this.#end(bag);
    }
    await Promise.all(gone.map((bag) => this.#keeper.save(bag)));
    return gone.length > 0;
  }

  /**
   * Returns a promise if what a request would send was never read from the store, or too long ago. Others may have cleared it.
   */
  ready({ bags }: Seat, session: Bag): Promise<unknown> | undefined {
    const now = Date.now();
    let readings: Promise<void>[] | undefined;
    for (const bag of session.kept ? [session, ...bags] : bags) {
      const reading = this.#keeper.refreshIfStale(bag, now);
      if (reading) (readings ??= []).push(reading);
    }
    return readings && Promise.all(readings);
  }

  /** Ends a session and deletes its state, here and in the store. Without a key, ends the connection's own. */
  async endSession(seat: Seat, key?: string): Promise<void> {
    const bag = key === undefined ? seat.session : this.keptSession(seat, key);
    if (bag === seat.session) seat.session = this.#newSession(seat.identity.name, seat.account);
    if (bag.kept && bag.syncedAt === 0) await this.#keeper.refreshOrWarn(bag);
    this.#end(bag);
    await this.#keeper.save(bag);
  }

  /** Handles a closed connection. A session that is not stored ends with it. */
  leave(seat: Seat): void {
    if (!this.#seats.delete(seat)) return;
    if (!seat.session.kept) this.#end(seat.session);
    for (const bag of seat.bags) {
      bag.unwatch(seat);
      if (!bag.isWatched && (!bag.kept || (bag.items.size === 0 && !bag.hasChanges))) this.#forget(bag);
    }
  }

  /** Stores the remaining changes. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const seat of [...this.#seats]) this.leave(seat);
    await this.#keeper.settle(this.#bags.values());
  }

  #checkOpen(): void {
    if (this.#closed) throw closedError();
  }

  /** Enforces the quotas for a bag that grew other than by a result. The caller is about to store the bag itself. */
  #trim(bag: Bag): void {
    const others = enforce([bag], this.#absorber);
    others.delete(bag);
    void this.#keeper.saveBehind(others);
  }

  #restore({ server, account, session, usedAt, items }: StoredBag, version: string): Bag {
    const known = this.#bags.get(idOf(server, account, session));
    const bag = known ?? this.#add(server, account, session, true);
    if (bag.syncedAt === 0) {
      bag.rebase(items, version, usedAt);
      bag.syncedAt = Date.now();
    }
    return bag;
  }

  #bag(server: string, { passing }: Identity, account: string, session?: string): Bag {
    return this.#bags.get(idOf(server, account, session)) ?? this.#add(server, account, session, !passing);
  }

  #add(server: string, account: string, session: string | undefined, kept: boolean): Bag {
    const tally = session === undefined && kept ? this.#absorber.tally : undefined;
    const bag = new Bag({ server, account, session, isSession: session !== undefined, kept, tally });
    this.#bags.set(idOf(server, account, session), bag);
    return bag;
  }

  #newSession(server: string, account: string): Bag {
    return new Bag({ server, account, session: undefined, isSession: true, kept: false, tally: undefined });
  }

  #end(bag: Bag): void {
    bag.over = true;
    if (bag.kept) this.#bags.delete(idOf(bag.server, bag.account, bag.session));
    for (const [key, { from }] of bag.items) {
      bag.remove(key);
      this.#absorber.events.emit('deleted', { server: from, scope: 'session', key, by: 'session-end' });
    }
  }

  #forget(bag: Bag): void {
    for (const name of bag.items.keys()) bag.remove(name);
    this.#bags.delete(idOf(bag.server, bag.account, bag.session));
  }
}

function idOf(server: string, account: string, session: string | undefined): string {
  return session === undefined ? `${server}\n${account}` : `${server}\n${account}\n${session}`;
}
