import { messageOf, ValiseError } from '../../core/errors.ts';
import { isObject, type Json, type JsonObject } from '../../core/json.ts';
import { sha256 } from '../../core/sha256.ts';
import { withTimeout } from '../../store/kit/clock.ts';
import {
  type Collection,
  collection,
  type Found,
  type Members,
  recordsOf,
} from '../../store/kit/collection.ts';
import { secondsUntil } from '../../store/kit/update.ts';
import type { Store } from '../../store/types.ts';
import { MAX_AGE, type Scope } from '../../wire/index.ts';
import type { ClientEventSource } from '../events.ts';
import { type Entry, type EntrySet, NONE, parsed, type SetName } from './entries.ts';

/** How long a call's result waits for a store that does not answer. */
const WRITE_TIMEOUT_MS = 5000;
/** How long a request with stale data waits for a store that does not answer. */
const READ_TIMEOUT_MS = 1000;
/** The age from which the next use of a set refreshes it from the store in the background. */
export const AGING_MS = 30_000;
/** The age from which the next use of a set waits for the store. */
const STALE_MS = 60_000;
/** Smaller differences of `usedAt` are not worth a write. */
const USE_MS = 1000;

/**
 * Reads and writes the entries of one principal in a store that other processes share. Each record is one set and is
 * written by compare-and-set. The loser of a race reapplies only its own changes to what the winner wrote, so no key disappears.
 */
export class JarRecords {
  readonly #store: Store;
  readonly #records: Collection<Members>;
  readonly #prefix: string;
  readonly #events: ClientEventSource;
  readonly #grown: (set: EntrySet) => void;
  /** The principal's records that cannot be read, and their versions. */
  readonly #unreadable = new Map<string, string>();
  /** Runs one operation at a time for each key, including when an ended session and its successor share the key. */
  readonly #lanes = new Map<string, Promise<void>>();
  /** Saves that have not started yet. They will include all changes made until then. */
  readonly #waiting = new Map<EntrySet, Promise<void>>();

  /** Calls `grown` before a write, if a set has entries set here in addition to what others have stored. */
  constructor(store: Store, principal: string, events: ClientEventSource, grown: (set: EntrySet) => void) {
    this.#store = store;
    this.#records = collection(store, '', RECORDS);
    this.#prefix = `jar/${digestOf(principal)}/`;
    this.#events = events;
    this.#grown = grown;
  }

  /** Loads everything that is stored for the principal. */
  async load(put: (stored: StoredSet, version: string) => void): Promise<void> {
    this.#unreadable.clear();
    const newer = ({ what, next = '' }: ValiseError): void =>
      this.#events.emit('warning', { code: 'store-newer', what, next });
    for await (const page of this.#records.pages(this.#prefix, newer)) {
      for (const [key, { value, version }] of page) {
        const stored = readSet(value);
        if (stored) put(stored, version);
        else if (value === undefined) this.#unreadable.set(key, version);
      }
    }
  }

  /**
   * Deletes the records that {@link load} could not read: all of them, or those of one server or scope. Returns how many
   * were deleted.
   */
  async dropUnreadable(server: string | undefined, scope: Scope | undefined): Promise<number> {
    const own = server === undefined ? '' : this.#key({ server, account: '', session: undefined });
    const meant = [...this.#unreadable].filter(([key]) => {
      const its = key.includes('/', this.#prefix.length) ? 'session' : 'server';
      return (own === '' || key.split(/[./]/, 3).join('/') === own) && (scope === undefined || its === scope);
    });
    const gone = await Promise.all(
      meant.map(([key, version]) => this.#store.delete(key, { ifVersion: version })),
    );
    return gone.filter(Boolean).length;
  }

  /** Reads a set again. */
  async refresh(set: EntrySet): Promise<void> {
    if (!set.isStored) return;
    set.syncedAt = Date.now();
    const key = this.#key(set);
    await this.#enqueue(key, async () => {
      const found = await this.#records.get(key);
      if (found?.version !== set.version) this.#rebase(set, found);
    });
  }

  /** Like {@link refresh}, but reports a failing store with a warning. The known entries remain valid. */
  refreshOrWarn(set: EntrySet): Promise<void> {
    return this.refresh(set).catch((error: unknown) => this.#warn('read', set, error));
  }

  /**
   * Reads a set that is older than {@link AGING_MS}. Returns a promise if the set must not be sent before, because others may
   * have cleared it. All requests share a read in progress.
   */
  freshen(set: EntrySet, now: number): Promise<void> | undefined {
    if (set.reading) return set.reading;
    if (now - set.syncedAt < STALE_MS) {
      void this.refreshOrWarn(set);
      return undefined;
    }
    const isKnown = set.syncedAt > 0;
    const reading = this.refresh(set);
    set.reading = (isKnown ? inTime(reading, READ_TIMEOUT_MS) : reading)
      .catch((error: unknown) => this.#warn('read', set, error))
      .finally(() => {
        set.reading = undefined;
      });
    return set.reading;
  }

  /** Stores the changes of a set. Calls made while a save is waiting share it. */
  async save(set: EntrySet): Promise<void> {
    if (!set.isStored) return;
    const key = this.#key(set);
    let saved = this.#waiting.get(set);
    if (!saved) {
      saved = this.#enqueue(key, () => {
        this.#waiting.delete(set);
        return this.#write(set, key);
      });
      this.#waiting.set(set, saved);
    }
    await saved;
  }

  /**
   * Like {@link save}, for sets that a result has changed. The result may be delivered when this resolves. It also resolves
   * if the store fails or is too slow, because the result matters more; `close()` retries.
   */
  async saveOrWarn(sets: Iterable<EntrySet>): Promise<void> {
    await Promise.all(
      Array.from(sets, (set) =>
        inTime(this.save(set), WRITE_TIMEOUT_MS).catch((error: unknown) => this.#warn('stored', set, error)),
      ),
    );
  }

  /** Waits for operations in progress, then stores the remaining changes and when sets were last used. */
  async settle(sets: Iterable<EntrySet>): Promise<void> {
    await Promise.all(this.#lanes.values());
    const left = [...sets].filter((set) => set.hasChanges || (set.entries.size > 0 && isUsed(set)));
    const results = await Promise.allSettled(left.map((set) => this.save(set)));
    const failed = results.find((result) => result.status === 'rejected');
    if (failed) {
      throw new ValiseError('not-saved', 'State that servers set could not be stored.', {
        next: 'Check that the store can be reached and written.',
        cause: failed.reason,
      });
    }
  }

  #enqueue(key: string, work: () => Promise<void>): Promise<void> {
    const done = (this.#lanes.get(key) ?? Promise.resolve()).then(work);
    const last = done
      .catch(() => {})
      .then(() => {
        if (this.#lanes.get(key) === last) this.#lanes.delete(key);
      });
    this.#lanes.set(key, last);
    return done;
  }

  /** Reapplies the changes of a set to what others have stored. Returns whether they have any effect. */
  #rebase(set: EntrySet, found: Found<Members> | undefined): boolean {
    const read = readSet(found?.value);
    const stored = read && isOf(read, set) ? read : undefined;
    const { hasEffect, hasGrown } = set.rebase(
      stored?.entries ?? new Map(),
      found?.version,
      stored?.usedAt ?? 0,
    );
    if (hasGrown) this.#grown(set);
    return hasEffect;
  }

  async #write(set: EntrySet, key: string): Promise<void> {
    let changes = set.changes();
    let { usedAt } = set;
    const version = await this.#records.update(
      key,
      (found) => {
        const hasEffect = this.#rebase(set, found);
        changes = set.changes();
        ({ usedAt } = set);
        if (!hasEffect && !isUsed(set)) return undefined;
        return set.entries.size === 0 ? null : writeSet(set);
      },
      { ttl: () => secondsUntil(lastExpiry(set)) },
    );
    set.stored(changes);
    if (version === undefined) return;
    set.version = version ?? undefined;
    set.storedUse = usedAt;
  }

  #key({ server, account, session }: SetName): string {
    // Keys are digests, because names may be long and readers of the store's keys need not learn which servers they belong to.
    const own = account === '' ? digestOf(server) : `${digestOf(server)}.${digestOf(account)}`;
    return `${this.#prefix}${own}${session === undefined ? '' : `/${digestOf(session)}`}`;
  }

  #warn(what: 'read' | 'stored', { server }: EntrySet, error: unknown): void {
    this.#events.emit('warning', {
      code: 'jar-not-kept',
      what: `The state of ${server} could not be ${what}: ${messageOf(error)}`,
      next: 'Check the store. The entries stay in memory and are stored with the next change or by close().',
    });
  }
}

/** Whether the store has an outdated time of last use. */
function isUsed({ usedAt, storedUse }: EntrySet): boolean {
  return usedAt - storedUse >= USE_MS;
}

/** Returns when the last of its entries expires. */
function lastExpiry({ entries }: EntrySet): number {
  let last = 0;
  for (const { expiresAt } of entries.values()) last = Math.max(last, expiresAt);
  return last;
}

function isOf(stored: SetName, { server, account, session }: SetName): boolean {
  return stored.server === server && stored.account === account && stored.session === session;
}

/** Settles like `work`, or rejects if the store does not answer in time. The work itself continues. */
function inTime(work: Promise<void>, ms: number): Promise<void> {
  return withTimeout(work, ms, () => {
    throw new Error(`the store has not answered within ${ms / 1000} s.`);
  });
}

function digestOf(text: string): string {
  return sha256(text).slice(0, 24);
}

/** A set of entries as stored. */
export interface StoredSet extends SetName {
  readonly usedAt: number;
  readonly entries: Map<string, Entry>;
}

/** The schema of stored sets. {@link readSet} checks the contents of a record. */
const RECORDS = recordsOf('jar record');

/** Returns the record to store. It uses lists instead of dictionaries, so that `__proto__` is an ordinary name. */
function writeSet(
  set: SetName & { readonly usedAt: number; readonly entries: ReadonlyMap<string, Entry> },
): JsonObject {
  const items: Json[] = [];
  for (const [
    name,
    { value, text, secure, size, setAt, expiresAt, from, usedAt, by, version, attributes },
  ] of set.entries) {
    const rest: Record<string, Json> = { ...(attributes as JsonObject) };
    if (from !== set.server) rest['from'] = from;
    if (usedAt !== undefined) rest['usedAt'] = usedAt;
    if (by !== undefined) rest['by'] = by;
    if (version !== undefined) rest['version'] = version;
    if (text !== undefined) rest['text'] = text;
    if (secure) rest['secure'] = true;
    // If an entry has a text, storing the value would lose precision too.
    const row: Json[] = [name, text === undefined ? value : true, size, setAt, expiresAt];
    if (Object.keys(rest).length > 0) row.push(rest);
    items.push(row);
  }
  return {
    server: set.server,
    ...(set.account !== '' && { account: set.account }),
    ...(set.session !== undefined && { session: set.session }),
    usedAt: set.usedAt,
    items,
  };
}

/** Reads a record. Returns undefined if it is damaged, because others can write the store's file. */
function readSet(value: Members | undefined): StoredSet | undefined {
  const { server, account = '', session, usedAt, items: rows } = value ?? {};
  if (typeof server !== 'string' || typeof account !== 'string') return undefined;
  if (!Array.isArray(rows) || (session !== undefined && typeof session !== 'string')) return undefined;
  const entries = new Map<string, Entry>();
  // No entry lives longer than a server could request, regardless of the clock or the file.
  const latest = Date.now() + MAX_AGE * 1000;
  for (const row of rows as readonly unknown[]) {
    const entry = readRow(row, server, latest);
    if (entry) entries.set((row as readonly string[])[0] as string, entry);
  }
  return { server, account, session, usedAt: typeof usedAt === 'number' ? usedAt : 0, entries };
}

function readRow(row: unknown, server: string, latest: number): Entry | undefined {
  if (!Array.isArray(row)) return undefined;
  const [name, value, size, setAt, end, rest] = row as readonly unknown[];
  if (typeof name !== 'string' || value === undefined || value === null) return undefined;
  if (typeof size !== 'number' || typeof setAt !== 'number' || typeof end !== 'number') return undefined;
  const expiresAt = Math.min(end, latest);
  if (!isObject(rest))
    return { value: value as Json, size, from: server, setAt, expiresAt, attributes: NONE };
  const { from = server, usedAt, by, version, text, secure, maxAge, serverScope, methodScope } = rest;
  const exact = typeof text === 'string' ? parsed(text) : undefined;
  if (text !== undefined && exact === undefined) return undefined;
  return {
    value: exact ?? (value as Json),
    ...(exact !== undefined && { text: text as string }),
    ...(secure === true && { secure: true }),
    size,
    from: String(from),
    setAt,
    expiresAt,
    attributes: {
      ...(typeof maxAge === 'number' && { maxAge }),
      ...(typeof serverScope === 'string' && { serverScope }),
      ...(typeof methodScope === 'string' && { methodScope }),
    },
    ...(typeof usedAt === 'number' && { usedAt }),
    ...(typeof by === 'string' && { by }),
    ...(typeof version === 'string' && { version }),
  };
}
