import { messageOf } from '../../core/errors.ts';
import type { JsonObject } from '../../core/json.ts';
import { sha256 } from '../../core/sha256.ts';
import { withTimeout } from '../../store/kit/clock.ts';
import { type Collection, collection, isNewer, type Schema } from '../../store/kit/collection.ts';
import { holdLease } from '../../store/kit/lease.ts';
import type { ServerContext } from '../context.ts';
import { tooMany } from './errors.ts';
import type { SessionsSettings } from './options.ts';
import {
  isAlive,
  isDefaultSession,
  isPreparing,
  LINGER,
  readRecord,
  type SessionRecord,
  type SessionRecords,
  type StoredRecord,
  tombstoneTtl,
} from './records.ts';
import type { EndedSession, EndReason } from './session.ts';
import type { SessionIndex } from './session-index.ts';

/** Options of {@link SessionExpiry}. */
export interface SessionExpiryOptions {
  readonly records: SessionRecords;
  readonly index: SessionIndex;
  readonly settings: SessionsSettings;
  /** Whether the records are only in this process's memory. */
  readonly isLocal: boolean;
  /** Called immediately at every end, on the instance that ended the session. */
  readonly onOver: (id: string) => void;
  readonly warnOnce: ServerContext['warnOnce'];
}

/**
 * A time to check a session, under a key that sorts by time, since lists come in this order.
 *
 * It names the session. If `onEnd` could not be called for a default session, whose id another may take, it holds the record
 * itself and until when to try.
 */
type Deadline = { readonly id: string } | { readonly over: SessionRecord; readonly until: number };

/** How deadlines are stored. In version 1, the value was the id of a session alone. */
const DEADLINES: Schema<Deadline> = {
  kind: 'session deadline',
  version: 2,
  migrate: (value) => (typeof value === 'string' ? { id: value } : value),
  read({ id, over, until }) {
    if (typeof id === 'string') return { id };
    const record = readRecord(over);
    return record && typeof until === 'number' ? { over: record, until } : undefined;
  },
  write: (deadline) => deadline as unknown as JsonObject,
};

/** How long a hook may take before its instance is presumed dead, in seconds. */
export const HOOK_TIME = 300;

/** How often a process looks for expired sessions, in seconds. */
const SWEEP = 30;
const PREFIX = 'due/';
/** The number of ends that are cached, if a store knows them too. */
const MAX_CACHED = 10_000;
/** How long the next preparation waits for the previous end, in seconds. By then its client has given up. */
const PATIENCE = 60;
/** Lets an otherwise idle server exit. */
const BACKGROUND = { background: true };

/** Returns when a session that begins now ends: after its first unused time, and at the latest. */
export function lifetimeOf(
  { ttl, sliding, maxLifetime, maxAnonymousLifetime }: SessionsSettings,
  isAnonymous: boolean,
): Pick<SessionRecord, 'created' | 'expires' | 'until'> {
  const created = Date.now();
  const longest = isAnonymous ? maxAnonymousLifetime : maxLifetime;
  const until = created + Math.min(longest, sliding ? longest : ttl) * 1000;
  return { created, until, expires: Math.min(until, created + ttl * 1000) };
}

/** Returns when the session would end if it were used now. */
export function nextExpiry(
  { expires, until }: Pick<SessionRecord, 'expires' | 'until'>,
  { sliding, ttl }: SessionsSettings,
): number {
  return sliding ? Math.max(expires, Math.min(until, Date.now() + ttl * 1000)) : expires;
}

/** Whether use of the session must be recorded. The end is postponed in steps, so that most calls need not write it. */
export function isExtensionDue(record: SessionRecord, settings: SessionsSettings): boolean {
  return nextExpiry(record, settings) - record.expires > (settings.ttl * 1000) / 10;
}

/** Ends sessions, on all instances that share a store at once, and calls `onEnd` once for each. */
export class SessionExpiry {
  readonly #options: SessionExpiryOptions;
  readonly #deadlines: Collection<Deadline>;
  /** Until when this process remembers that a session has ended, by id. */
  readonly #ended = new Map<string, number>();
  /** Whether only this process remembers the end of a session that can still prove itself. */
  readonly #isOnlyMemory: boolean;
  /** Deadlines that a sweep of this process is processing, or has left behind because a hook does not return. */
  readonly #checking = new Set<string>();
  #timer: NodeJS.Timeout | undefined;
  #nextSweep = Number.POSITIVE_INFINITY;
  #isClosed = false;
  #sweeping: Promise<void> | undefined;

  constructor(options: SessionExpiryOptions) {
    this.#options = options;
    this.#isOnlyMemory = options.isLocal && options.settings.mode === 'sealed';
    this.#deadlines = collection(options.records.store, PREFIX, DEADLINES);
    if (options.settings.onEnd) this.#schedule(Date.now() + SWEEP * 1000);
  }

  /** Whether `close` has been called. */
  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** Whether a session ended in this process. Does not read the store. */
  hasEnded(id: string): boolean {
    return (this.#ended.get(id) ?? 0) > Date.now();
  }

  /**
   * Whether a session can still be used. A sealed session need not have a record; `lastUsed` is then the latest known use.
   */
  async isUsable(id: string, lastUsed = Date.now()): Promise<boolean> {
    const { records, settings } = this.#options;
    const found = await records.find(id);
    if (found) return isAlive(found.record);
    const isExpired = Date.now() - lastUsed >= settings.ttl * 1000;
    return settings.mode === 'sealed' && !this.hasEnded(id) && !isExpired;
  }

  /** Throws if one more end could not be remembered. No session begins until enough seals have expired. */
  checkRoom(): void {
    const { maxEnded } = this.#options.settings;
    if (!this.#isOnlyMemory || this.#ended.size < maxEnded) return;
    this.#forget();
    if (this.#ended.size >= maxEnded) throw tooMany('sessions.maxEnded');
  }

  /** Ends a session. `unknown` is the record to write if there is none, since a sealed session proves itself. */
  async end(id: string, reason: EndReason, unknown?: SessionRecord): Promise<boolean> {
    const over = await this.#options.records.replace(
      id,
      (found) => {
        if (!found && this.hasEnded(id)) return undefined;
        const record = found ?? unknown;
        if (!record || record.ended !== null || (reason === 'expired' && isAlive(record))) return undefined;
        return this.#tombstone({ ...record, ended: reason });
      },
      { ttl: this.#tombstoneTtl },
    );
    if (!over) return false;
    await this.#announce(over.record);
    return true;
  }

  /** Ends a session that failed to begin after `onCreate` completed. Only then is there something to free. */
  async endPrepared(record: SessionRecord): Promise<EndReason> {
    let ended: EndReason = 'revoked';
    const over = await this.#options.records.replace(
      record.id,
      (found) => {
        ended = found?.ended ?? 'revoked';
        const isOurs = !found || found.created === record.created;
        return isOurs ? this.#tombstone({ ...record, ended }) : undefined;
      },
      { ttl: this.#tombstoneTtl },
    );
    if (over) await this.#announce(over.record);
    else await this.#callOnEnd({ ...record, ended });
    return ended;
  }

  /**
   * Begins a session in place of one that is over. Ends the old one if it expired unnoticed. Returns undefined if it is alive.
   */
  async succeed(record: SessionRecord): Promise<StoredRecord | undefined> {
    let before: SessionRecord | undefined;
    const begun = await this.#options.records.replace(record.id, (now) => {
      before = now;
      // Whoever prepares a session holds its lease, so another instance that was preparing it has died.
      const isFree = !now || !isAlive(now) || (record.preparing && now.preparing);
      return isFree ? record : undefined;
    });
    if (!begun) return undefined;
    const isUnannounced = before !== undefined && (before.ended === null || isPreparing(before));
    const announced =
      before && isUnannounced && this.#options.settings.onEnd
        ? this.#callOnEnd({ ...before, ended: before.ended ?? 'expired' }).then(
            () => undefined,
            () => undefined,
          )
        : undefined;
    await this.watch(record);
    // What `onEnd` frees now must not be what is prepared next under the same id.
    if (record.preparing && announced)
      await withTimeout(announced, PATIENCE * 1000, () => this.#warnOfSlowEnd(), BACKGROUND);
    return begun;
  }

  /** Schedules a check of a session at its end, or earlier. */
  async watch({ id, expires }: Pick<SessionRecord, 'id' | 'expires'>, at = expires): Promise<void> {
    if (this.#options.settings.onEnd) await this.#addDeadline({ id }, Math.min(at, expires), expires);
  }

  /** Ends every session that has expired. Also runs by itself. */
  sweep(): Promise<void> {
    this.#sweeping ??= this.#sweep().finally(() => {
      this.#sweeping = undefined;
      this.#schedule(Date.now() + SWEEP * 1000 * (1 + Math.random() / 4));
    });
    return this.#sweeping;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    await this.#sweeping?.catch(() => undefined);
  }

  /** Returns the tombstone of a session. Its state is kept only for `onEnd`. */
  #tombstone(over: SessionRecord): SessionRecord {
    return this.#options.settings.onEnd ? over : { ...over, data: null };
  }

  get #tombstoneTtl(): number {
    return tombstoneTtl(this.#options.settings);
  }

  /** Announces the end of a session whose record is already a tombstone. */
  async #announce(over: SessionRecord): Promise<void> {
    const { records, index, settings, isLocal, onOver } = this.#options;
    const { id } = over;
    this.#forget();
    this.#ended.set(id, Date.now() + settings.ttl * 1000);
    onOver(id);
    await index.remove(over, { hasTombstone: true });
    if (isPreparing(over)) return;
    if (settings.onEnd) await this.#callOnEnd(over);
    else if (isLocal) await records.remove(id);
  }

  async #sweep(): Promise<void> {
    this.#nextSweep = Number.POSITIVE_INFINITY;
    const { store } = this.#options.records;
    const now = Date.now();
    for (let cursor: string | undefined; !this.#isClosed; ) {
      const page = await store.list(PREFIX, { limit: 100, ...(cursor !== undefined && { cursor }) });
      for (const name of page.keys) {
        const key = name.slice(PREFIX.length);
        const at = timeOf(key);
        if (at > now) {
          this.#schedule(at);
          return;
        }
        const found = await this.#deadlines.get(key).catch((error: unknown) => this.#skipNewer(error));
        if (found === 'newer' || (found?.value && !(await this.#check(found.value)))) continue;
        await this.#deadlines.delete(key);
      }
      cursor = page.cursor;
      if (cursor === undefined) return;
    }
  }

  /** Skips a session of a later release, which will end it. */
  #skipNewer(error: unknown): 'newer' {
    if (!isNewer(error)) throw error;
    const { what, next = '' } = error;
    this.#options.warnOnce(`newer ${what}`, { what, next });
    return 'newer';
  }

  /** Handles a deadline, but does not wait for a hook that does not return, so that other ends are announced too. */
  #check(deadline: Deadline): Promise<boolean> {
    const key = keyOf(deadline, 0);
    if (this.#checking.has(key)) return Promise.resolve(false);
    this.#checking.add(key);
    const checked = this.#handle(deadline)
      .catch((error: unknown) => this.#skipNewer(error) !== 'newer')
      .finally(() => this.#checking.delete(key));
    const warn = (): false => {
      this.#options.warnOnce('session-end-stuck', {
        what: 'onEnd has not returned for a session in five minutes.',
        next: 'Make onEnd fail after a timeout of its own: then it is called again. Other sessions do not wait for it.',
      });
      return false;
    };
    return withTimeout(checked, HOOK_TIME * 1000, warn, BACKGROUND);
  }

  /** Checks a session that may have expired. Returns true if there is no need to check again at this time. */
  async #handle(deadline: Deadline): Promise<boolean> {
    if ('over' in deadline) return this.#callOnEnd(deadline.over, deadline.until);
    const found = await this.#options.records.find(deadline.id);
    if (!found || found.record.announced) return true;
    const { record } = found;
    if (isAlive(record) || isPreparing(record)) {
      await this.watch(record);
      return true;
    }
    return record.ended === null ? this.end(deadline.id, 'expired') : this.#callOnEnd(record);
  }

  /**
   * Calls `onEnd`, unless another instance does or did. Returns true if that is certain.
   *
   * `until` is when to stop trying for a session whose record is no longer in the store; see {@link Deadline}.
   */
  async #callOnEnd(over: SessionRecord, until?: number): Promise<boolean> {
    const { records, settings, warnOnce, isLocal } = this.#options;
    const { id } = over;
    // The lease is not renewed: if the hook hangs, another instance gets to try.
    const lease = await holdLease(records.store, `on-end/${sha256(id)}`, {
      ttl: HOOK_TIME,
      wait: 0,
      renew: false,
    });
    if (!lease) return false;
    try {
      const found = await records.find(id);
      const isSucceeded = found ? isSuccessor(found.record, over) : until !== undefined;
      if (!isSucceeded && (!found || found.record.announced)) return true;
      const record = isSucceeded || !found ? over : found.record;
      if (record.ended === null) return true;
      const retry = await this.#addRetry(record, until);
      await settings.onEnd?.(endedSession(record, record.ended));
      if (found && !isSucceeded)
        await records.save({ ...record, announced: true, data: null }, found, settings.ttl);
      if (retry !== undefined) await this.#deadlines.delete(retry);
      if (isLocal && !isSucceeded) await records.remove(id);
      return true;
    } catch (error) {
      warnOnce(`session-end ${String(error)}`, {
        what: `onEnd failed for a session: ${messageOf(error)}`,
        next: 'It will be called again for that session in some minutes.',
      });
      return true;
    } finally {
      await lease.release();
    }
  }

  #warnOfSlowEnd(): void {
    this.#options.warnOnce('stand-in-end-stuck', {
      what: 'onEnd has not returned for a default session in a minute. The next session with the same id is prepared now.',
      next: 'Make onEnd fail after a timeout of its own: then it is called again.',
    });
  }

  /** Schedules another call of `onEnd`, in case this one fails. */
  async #addRetry(over: SessionRecord, until = Date.now() + LINGER * 1000): Promise<string | undefined> {
    const at = Date.now() + HOOK_TIME * 1000;
    if (at > until) return undefined;
    return this.#addDeadline(isDefaultSession(over.id) ? { over, until } : { id: over.id }, at);
  }

  /** Schedules another check of a session. Returns the key of the deadline, which stays as long as there may be a record. */
  async #addDeadline(deadline: Deadline, at: number, until = at): Promise<string> {
    const key = keyOf(deadline, at);
    const ttl = Math.max(0, (until - Date.now()) / 1000) + 2 * LINGER;
    await this.#deadlines.put(key, deadline, { ttl });
    this.#schedule(Math.ceil(at / 1000) * 1000);
    return key;
  }

  /** Forgets expired ends and, if the store knows them too, the oldest. */
  #forget(): void {
    const now = Date.now();
    for (const [old, until] of this.#ended) {
      if (until > now && (this.#isOnlyMemory || this.#ended.size < MAX_CACHED)) return;
      this.#ended.delete(old);
    }
  }

  #schedule(at: number): void {
    if (this.#isClosed || at >= this.#nextSweep) return;
    this.#nextSweep = at;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(
      () => {
        this.sweep().catch(() => undefined);
      },
      Math.min(Math.max(at - Date.now(), 0), 2 ** 31 - 1),
    );
    // Let an otherwise idle server exit.
    this.#timer.unref();
  }
}

/** Returns an ended session as `onEnd` receives it. */
export function endedSession(
  { id, label, data }: Pick<SessionRecord, 'id' | 'label' | 'data'>,
  reason: EndReason,
): EndedSession {
  const values = data !== null && Object.hasOwn(data, '') ? data[''] : undefined;
  return {
    id,
    label: label ?? undefined,
    reason,
    get: (key) => (values && Object.hasOwn(values, key) ? values[key] : undefined),
  };
}

/** Whether a record belongs to a later default session with the same id as one that is over. */
function isSuccessor({ ended, created }: SessionRecord, over: SessionRecord): boolean {
  return ended === null || created !== over.created;
}

/** Returns the time that a key was made for, in milliseconds since 1970. */
function timeOf(key: string): number {
  return Number(key.split('/')[0]) * 1000;
}

/** Returns the key of a deadline. Two for one second have the same key only if they are about the same session. */
function keyOf(deadline: Deadline, at: number): string {
  const session = 'id' in deadline ? deadline.id : JSON.stringify([deadline.over.id, deadline.over.created]);
  return `${String(Math.ceil(at / 1000)).padStart(12, '0')}/${sha256(session)}`;
}
