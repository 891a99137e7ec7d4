import type { Listener } from '../../core/events.ts';
import type { Store } from '../../store/types.ts';
import { readState } from '../../wire/index.ts';
import { closedError } from '../errors.ts';
import type { ClientEventSource, ClientEvents } from '../events.ts';
import type { Identity, NoIdentity } from '../identity/identity.ts';
import {
  EntrySet,
  JarView,
  type Matcher,
  matcher,
  type SetName,
  shortened,
  type ViewFacts,
} from './entries.ts';
import { readExport } from './import.ts';
import { enforceQuotas, type Limited, type Quotas, readQuotas } from './quotas.ts';
import { type Origin, receive } from './receive.ts';
import { AGING_MS, JarRecords, type StoredSet } from './records.ts';
import type { Jar, JarEntry, JarEvents, JarExport, JarFilter, JarImported, JarQuotas } from './types.ts';

/** Options for {@link ClientJar}. */
export interface JarOptions {
  readonly store: Store;
  readonly principal: string;
  readonly events: ClientEventSource;
  readonly quotas?: JarQuotas | undefined;
}

/**
 * The jar of one principal. All entries are in memory, so a request waits for the store only if its sets were not read
 * recently.
 */
export class ClientJar implements Jar, Limited {
  readonly events: ClientEventSource;
  readonly quotas: Quotas;
  readonly counter = { total: 0 };
  /** Increases when something is cleared. Responses to requests of an earlier epoch do not restore it. */
  epoch = 0;
  readonly #sets = new Map<string, EntrySet>();
  readonly #views = new Set<JarView>();
  readonly #records: JarRecords;
  #closed = false;

  constructor({ store, principal, events, quotas }: JarOptions) {
    this.events = events;
    this.quotas = readQuotas(quotas);
    this.#records = new JarRecords(store, principal, events, (set) => this.#trim(set));
  }

  list(options: JarFilter & { readonly values?: boolean | undefined } = {}): JarEntry[] {
    return this.#list(matcher(options, 'values'), options.values === true);
  }

  show(server: string): JarEntry[] {
    return this.#list(matcher({ server }), true);
  }

  export(filter: JarFilter = {}): JarExport {
    return { version: 1, entries: this.#list(matcher(filter), true) };
  }

  async import(exported: unknown): Promise<JarImported> {
    const { entries, refused } = readExport(exported, this.quotas.bytesPerKey);
    await this.refresh();
    const grown = new Set<EntrySet>();
    let imported = 0;
    for (const { set: name, scope, key, entry } of entries) {
      const set = this.#find(name, true);
      if ((set.entries.get(key)?.setAt ?? Number.NEGATIVE_INFINITY) >= entry.setAt) {
        refused.push({ server: entry.from, key, detail: 'The stored entry is not older.' });
        continue;
      }
      set.set(key, entry);
      grown.add(set);
      imported += 1;
      this.events.emit('set', { server: entry.from, scope, key, size: entry.size });
    }
    for (const set of grown) this.#trim(set);
    await this.#save();
    return { imported, refused };
  }

  async clear(filter: JarFilter = {}): Promise<number> {
    const matches = matcher(filter);
    const epoch = ++this.epoch;
    // Clears what this process knows immediately, and after the refresh what other processes may have added.
    const here = this.#clearKnown(filter, matches, epoch);
    await this.refresh();
    const others = this.#clearKnown(filter, matches, epoch);
    await this.#save();
    if (filter.key !== undefined) return here + others;
    return here + others + (await this.#records.dropUnreadable(matches.server, filter.scope));
  }

  async refresh(): Promise<void> {
    this.#checkOpen();
    const fresh = new Set<EntrySet>();
    const changed = new Set<EntrySet>();
    await this.#records.load((stored, version) => {
      const set = this.#restore(stored, version);
      (set.version === version ? fresh : changed).add(set);
    });
    // Another process has cleared the sets that are no longer there.
    for (const set of this.#sets.values()) {
      if (set.version !== undefined && !fresh.has(set)) changed.add(set);
    }
    await Promise.all(Array.from(changed, (set) => this.#records.refresh(set)));
  }

  on<Name extends keyof JarEvents>(name: Name, listener: Listener<JarEvents[Name]>): () => void {
    return this.events.on(name, listener as Listener<ClientEvents[Name]>);
  }

  /** Returns every set, including those of sessions that are not stored. */
  allSets(): EntrySet[] {
    const own = [...this.#views].map((view) => view.session).filter((set) => !set.isStored);
    return [...this.#sets.values(), ...own];
  }

  /** Adds a view for a new connection. */
  view(identity: Identity, { account, exact }: Pick<ViewFacts, 'account' | 'exact'>): JarView {
    const { name, scopes, local, passing } = identity;
    const names = [name, ...(local ? [] : scopes.map((scope) => `.${scope}`))];
    const sets = names.map((server) => this.#find({ server, account, session: undefined }, !passing));
    const view = new JarView({ identity, account, exact, sets }, newSession(name, account));
    this.#views.add(view);
    return view;
  }

  /** Loads the changes of other processes for a new connection. */
  async open({ sets }: JarView): Promise<void> {
    await Promise.all(sets.map((set) => this.#records.refreshOrWarn(set)));
  }

  /**
   * Prepares the entries for a request: removes expired ones, and reads the store if they were not read recently. Returns
   * undefined if the request need not wait.
   */
  ready({ sets }: JarView, session: EntrySet): Promise<unknown> | undefined {
    const now = Date.now();
    let reads: Promise<unknown>[] | undefined;
    for (const set of [session, ...sets]) {
      if (now >= set.endsAt) this.#expire(set, now);
      if (!set.isStored || (now - set.syncedAt < AGING_MS && !set.reading)) continue;
      const read = this.#records.freshen(set, now);
      if (read) (reads ??= []).push(read);
    }
    return reads && Promise.all(reads);
  }

  /** Applies the state in a result. Resolves when the result may be delivered. */
  async receive(meta: unknown, origin: Origin): Promise<void> {
    const changed = [...receive(meta, origin, this)].filter((set) => set.isStored);
    if (changed.length > 0) await this.#records.saveOrWarn(changed);
  }

  /** Reports state that was rejected because the jar stores none for the server. */
  refuse(meta: unknown, { name, refused }: NoIdentity): void {
    if (!this.events.has('refused')) return;
    const state = readState(meta);
    for (const scope of ['session', 'server'] as const)
      for (const key in state[scope])
        this.events.emit('refused', {
          server: name,
          scope,
          key: shortened(key),
          reason: 'server',
          detail: refused,
        });
  }

  /** Starts a new session if the id of the transport's session is gone or has changed, because it may end without notice. */
  followTransport(view: JarView): void {
    const now = view.transport?.sessionId;
    if (now === view.transportSession) return;
    if (view.transportSession !== undefined) this.beginSession(view);
    view.transportSession = now;
  }

  /** Starts a new session with the server, and deletes the state of the previous one. */
  beginSession(view: JarView): void {
    const before = view.session;
    view.session = newSession(view.identity.name, view.account);
    this.#end(before);
    if (before.isStored) void this.#records.saveOrWarn([before]);
  }

  /**
   * Binds the session-scope state of a connection to a session that outlives the connection. The state is stored and found
   * again under `key`. Without a key, the state belongs to the connection again.
   */
  async bindSession(view: JarView, key: string | undefined): Promise<void> {
    const before = view.session;
    const set =
      key === undefined ? newSession(view.identity.name, view.account) : this.storedSession(view, key);
    await this.#records.refreshOrWarn(set);
    if (set === before) return;
    // State set by the session's first responses already belongs to the session.
    if (!before.isStored && before.entries.size > 0) {
      for (const [name, entry] of before.entries) set.set(name, entry);
      this.#trim(set);
    }
    view.session = set;
    if (set.hasChanges) await this.#records.save(set);
  }

  /** Returns the set of a stored session. Await {@link ready} before using it. */
  storedSession({ identity, account }: JarView, key: string): EntrySet {
    return this.#find({ server: identity.name, account, session: key }, !identity.passing);
  }

  /** Moves session-scope state to the account that the user of a connection has signed in to. */
  move(from: JarView, to: JarView): void {
    const { session: before } = from;
    if (before.session !== undefined) to.session = this.storedSession(to, before.session);
    for (const [name, entry] of before.entries) {
      to.session.set(name, entry);
      before.remove(name);
    }
    to.transport = from.transport;
    to.transportSession = from.transportSession;
    this.leave(from);
    void this.#records.saveOrWarn([before, to.session]);
  }

  /** Ends a session and deletes its state, here and in the store. Without a key, ends the connection's own. */
  async endSession(view: JarView, key?: string): Promise<void> {
    const set = key === undefined ? view.session : this.storedSession(view, key);
    if (set === view.session) view.session = newSession(view.identity.name, view.account);
    if (set.syncedAt === 0) await this.#records.refreshOrWarn(set);
    this.#end(set);
    await this.#records.save(set);
  }

  /** Ends these sessions with a server after the user signed out, and forgets accounts that nobody can sign in to again. */
  async signOut(server: string, sessions: readonly string[], accounts: readonly string[]): Promise<boolean> {
    await this.refresh();
    const isOver = (set: EntrySet): boolean =>
      set.server === server && set.session !== undefined && sessions.includes(set.session);
    const isOrphan = (set: EntrySet): boolean =>
      set.account.split('.').some((part) => accounts.includes(part));
    const gone = [...this.#sets.values()].filter((set) => isOver(set) || isOrphan(set));
    for (const set of gone) {
      for (const view of this.#views)
        if (view.session === set) view.session = newSession(view.identity.name, view.account);
      if (set.scope === 'server') for (const name of set.entries.keys()) set.remove(name);
      else this.#end(set);
    }
    await Promise.all(gone.map((set) => this.#records.save(set)));
    return gone.length > 0;
  }

  /** Removes the view of a closed connection. A session that is not stored ends with it. */
  leave(view: JarView): void {
    if (!this.#views.delete(view)) return;
    if (!view.session.isStored) this.#end(view.session);
    for (const set of view.sets) {
      const isUnused =
        --set.connections === 0 && (!set.isStored || (set.entries.size === 0 && !set.hasChanges));
      if (isUnused) this.#forget(set);
    }
  }

  /** Stores the remaining changes. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const view of [...this.#views]) this.leave(view);
    await this.#records.settle(this.#sets.values());
  }

  #checkOpen(): void {
    if (this.#closed) throw closedError();
  }

  async #save(): Promise<void> {
    const changed = [...this.#sets.values()].filter((set) => set.hasChanges);
    await Promise.all(changed.map((set) => this.#records.save(set)));
  }

  /** Returns every set, after sessions have followed their transports. */
  #current(): EntrySet[] {
    this.#checkOpen();
    for (const view of this.#views) if (!view.session.isStored) this.followTransport(view);
    return this.allSets();
  }

  #list(matches: Matcher, values: boolean): JarEntry[] {
    const entries: JarEntry[] = [];
    for (const set of this.#current()) {
      this.#expire(set, Date.now());
      for (const [key, entry] of set.entries) {
        if (!matches(set.scope, key, entry)) continue;
        entries.push({
          server: entry.from,
          scope: set.scope,
          key,
          size: entry.size,
          setAt: new Date(entry.setAt),
          usedAt: new Date(set.usedAtOf(entry)),
          expiresAt: new Date(entry.expiresAt),
          attributes: { ...entry.attributes },
          ...(entry.by !== undefined && { setBy: entry.by }),
          ...(entry.version !== undefined && { version: entry.version }),
          ...(set.session !== undefined && { session: set.session }),
          ...(set.account !== '' && { account: set.account }),
          ...(entry.secure && { secure: true as const }),
          ...(values && { value: structuredClone(entry.value) }),
          ...(values && entry.text !== undefined && { text: entry.text }),
        });
      }
    }
    return entries.sort(byName);
  }

  #clearKnown(filter: JarFilter, matches: Matcher, epoch: number): number {
    let count = 0;
    for (const set of this.#current()) {
      const { scope } = set;
      if (filter.scope !== undefined && filter.scope !== scope) continue;
      if (matches.covers(set.server)) set.markCleared(epoch, filter.key);
      for (const [key, entry] of set.entries) {
        if (!matches(scope, key, entry)) continue;
        set.remove(key);
        count++;
        this.events.emit('deleted', { server: entry.from, scope, key, by: 'clear' });
      }
    }
    return count;
  }

  #expire(set: EntrySet, now: number): void {
    for (const [key, { from }] of set.expire(now))
      this.events.emit('deleted', { server: from, scope: set.scope, key, by: 'expiry' });
  }

  /** Enforces the quotas for a set that grew other than by a result. The caller is about to store the set itself. */
  #trim(set: EntrySet): void {
    const others = enforceQuotas([set], this);
    others.delete(set);
    void this.#records.saveOrWarn(others);
  }

  #restore({ usedAt, entries, ...name }: StoredSet, version: string): EntrySet {
    const set = this.#find(name, true);
    if (set.syncedAt === 0) {
      set.rebase(entries, version, usedAt);
      set.syncedAt = Date.now();
    }
    return set;
  }

  #find({ server, account, session }: SetName, isStored: boolean): EntrySet {
    const id = idOf({ server, account, session });
    let set = this.#sets.get(id);
    if (set) return set;
    const scope = session === undefined ? 'server' : 'session';
    const counter = scope === 'server' && isStored ? this.counter : undefined;
    set = new EntrySet({ server, account, session, scope, isStored, counter });
    this.#sets.set(id, set);
    return set;
  }

  #end(set: EntrySet): void {
    set.isOver = true;
    if (set.isStored) this.#sets.delete(idOf(set));
    for (const [key, { from }] of set.entries) {
      set.remove(key);
      this.events.emit('deleted', { server: from, scope: 'session', key, by: 'session-end' });
    }
  }

  #forget(set: EntrySet): void {
    for (const name of set.entries.keys()) set.remove(name);
    this.#sets.delete(idOf(set));
  }
}

/** Returns the set of a new session that is not stored. */
function newSession(server: string, account: string): EntrySet {
  return new EntrySet({
    server,
    account,
    session: undefined,
    scope: 'session',
    isStored: false,
    counter: undefined,
  });
}

function idOf({ server, account, session }: SetName): string {
  return session === undefined ? `${server}\n${account}` : `${server}\n${account}\n${session}`;
}

/** Compares by server, then scope, then key. */
function byName(one: JarEntry, other: JarEntry): number {
  for (const part of ['server', 'scope', 'key'] as const)
    if (one[part] !== other[part]) return one[part] < other[part] ? -1 : 1;
  return 0;
}
