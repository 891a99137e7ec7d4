import { messageOf } from '../../errors.ts';
import { sha256 } from '../../sha256.ts';
import { type Collection, collection, isNewer } from '../../store/kit/collection.ts';
import { holdLease } from '../../store/kit/lease.ts';
import { withTimeout } from '../../store/kit/timeout.ts';
import type { ServerContext } from '../context.ts';
import type { EndedSession, EndReason } from './hooks.ts';
import { NOTES, type Note, noteKey, timeOf } from './note.ts';
import { type Found, LINGER, type Registry } from './registry.ts';
import { HOOK_TIME, isBeginning, isLiving, isStandIn, type Row } from './row.ts';
import { tooMany } from './shelf.ts';

/** Options of `Endings`. */
export interface EndingsOptions {
  readonly registry: Registry;
  /** Whether the registry is only in this process's memory. */
  readonly local: boolean;
  /** Whether only this process remembers the end of a session that can still prove itself. */
  readonly remembers: boolean;
  /** The number of ends that this process remembers before it refuses new sessions. */
  readonly maxEnded: number;
  /** How long a seal of a session can still be presented, in seconds. */
  readonly ttl: number;
  readonly onEnd: ((session: EndedSession) => void | Promise<void>) | undefined;
  /** Called immediately at every end, on the instance that ended the session. */
  readonly onOver: (id: string) => void;
  readonly warnOnce: ServerContext['warnOnce'];
}

const SWEEP = 30;
const DUE = 'due/';
/** The number of ends that are cached, if a store knows them too. */
const CACHED = 10_000;
/** How long the next preparation waits for the previous end, in seconds. By then its client has given up. */
const PATIENCE = 60;
/** Lets an otherwise idle server exit. */
const BACKGROUND = { background: true };

/** Ends sessions, on all instances that share a store at once, and calls `onEnd` once for each. */
export class Endings {
  readonly #options: EndingsOptions;
  readonly #notes: Collection<Note>;
  readonly #graves = new Map<string, number>();
  /** Notes that a sweep of this process is processing, or has left behind because a hook does not return. */
  readonly #underWay = new Set<string>();
  #timer: NodeJS.Timeout | undefined;
  #next = Number.POSITIVE_INFINITY;
  #closed = false;
  #sweeping: Promise<void> | undefined;

  constructor(options: EndingsOptions) {
    this.#options = options;
    this.#notes = collection(options.registry.store, DUE, NOTES);
    if (options.onEnd) this.#arm(Date.now() + SWEEP * 1000);
  }

  /** Whether a session ended in this process. Does not read the store. */
  isOver(id: string): boolean {
    return (this.#graves.get(id) ?? 0) > Date.now();
  }

  /** Throws if one more end could not be remembered. No session begins until enough seals have expired. */
  checkRoom(): void {
    const { remembers, maxEnded } = this.#options;
    if (!remembers || this.#graves.size < maxEnded) return;
    this.#forget();
    if (this.#graves.size >= maxEnded) throw tooMany('sessions.maxEnded');
  }

  /** Ends a session. `unknown` is the record to write if there is none, since a sealed session proves itself. */
  async end(id: string, reason: EndReason, unknown?: Row): Promise<boolean> {
    const over = await this.#registry.replace(
      id,
      (found) => {
        if (!found && this.isOver(id)) return undefined;
        const row = found ?? unknown;
        if (!row || row.ended !== null || (reason === 'expired' && isLiving(row))) return undefined;
        return this.#tombstone({ ...row, ended: reason });
      },
      { ttl: this.#tombstoneTtl },
    );
    if (!over) return false;
    await this.#ended(over.row);
    return true;
  }

  /** Whether `close` has been called. */
  get isClosed(): boolean {
    return this.#closed;
  }

  /** Ends a session that failed to begin after `onCreate` completed. Only then is there something to free. */
  async endUnborn(row: Row): Promise<EndReason> {
    let ended: EndReason = 'revoked';
    const over = await this.#registry.replace(
      row.id,
      (found) => {
        ended = found?.ended ?? 'revoked';
        const isOurs = !found || found.created === row.created;
        return isOurs ? this.#tombstone({ ...row, ended }) : undefined;
      },
      { ttl: this.#tombstoneTtl },
    );
    if (over) await this.#ended(over.row);
    else await this.#tell({ ...row, ended });
    return ended;
  }

  /**
   * Begins a session in place of one that is over. Ends the old one if it expired unnoticed. Returns undefined if it is alive.
   */
  async claim(row: Row): Promise<Found | undefined> {
    const done = await this.#registry.claim(row);
    if (!done) return undefined;
    const { claimed, before } = done;
    const isUntold = before !== undefined && (before.ended === null || isBeginning(before));
    const told =
      isUntold && this.#options.onEnd
        ? this.#tell({ ...before, ended: before.ended ?? 'expired' }).then(
            () => undefined,
            () => undefined,
          )
        : undefined;
    await this.watch(row);
    // What `onEnd` frees now must not be what is prepared next under the same id.
    if (row.beginning && told)
      await withTimeout(told, PATIENCE * 1000, () => this.#warnOfStandIn(), BACKGROUND);
    return claimed;
  }

  /** Schedules a check of a session at its end, or earlier. */
  async watch({ id, expires }: Pick<Row, 'id' | 'expires'>, at = expires): Promise<void> {
    if (!this.#options.onEnd) return;
    await this.#note({ id }, Math.min(at, expires), expires);
  }

  /** Ends every session that has expired. Also runs by itself. */
  sweep(): Promise<void> {
    this.#sweeping ??= this.#sweep().finally(() => {
      this.#sweeping = undefined;
      this.#arm(Date.now() + SWEEP * 1000 * (1 + Math.random() / 4));
    });
    return this.#sweeping;
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#timer);
    await this.#sweeping?.catch(() => undefined);
  }

  get #registry(): Registry {
    return this.#options.registry;
  }

  /** Returns the record to store for a session that is over. Its state is kept only for `onEnd`. */
  #tombstone(over: Row): Row {
    return this.#options.onEnd ? over : { ...over, data: null };
  }

  get #tombstoneTtl(): number {
    return Math.max(this.#options.ttl, this.#options.onEnd ? LINGER : 0);
  }

  /** Announces the end of a session whose record already says so. */
  async #ended(over: Row): Promise<void> {
    const { registry, local, ttl, onEnd, onOver } = this.#options;
    const { id } = over;
    this.#dig(id, ttl);
    onOver(id);
    await registry.unlist(over);
    if (isBeginning(over)) return;
    if (onEnd) await this.#tell(over);
    else if (local) await registry.remove(id);
  }

  async #sweep(): Promise<void> {
    this.#next = Number.POSITIVE_INFINITY;
    const { store } = this.#registry;
    const now = Date.now();
    for (let cursor: string | undefined; !this.#closed; ) {
      const page = await store.list(DUE, { limit: 100, ...(cursor !== undefined && { cursor }) });
      for (const name of page.keys) {
        const key = name.slice(DUE.length);
        const at = timeOf(key);
        if (at > now) {
          this.#arm(at);
          return;
        }
        const found = await this.#notes.get(key).catch((error: unknown) => this.#skipNewer(error));
        if (found === 'newer' || (found?.value && !(await this.#look(found.value)))) continue;
        await this.#notes.delete(key);
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

  /** Calls {@link #due}, but does not wait for a hook that does not return, so that other ends are reported too. */
  #look(note: Note): Promise<boolean> {
    const whose = noteKey(note, 0);
    if (this.#underWay.has(whose)) return Promise.resolve(false);
    this.#underWay.add(whose);
    const looked = this.#due(note)
      .catch((error: unknown) => this.#skipNewer(error) !== 'newer')
      .finally(() => this.#underWay.delete(whose));
    const warn = (): false => {
      this.#options.warnOnce('session-end-stuck', {
        what: 'onEnd has not returned for a session in five minutes.',
        next: 'Let it fail where it waits in vain: then it is called again. Other sessions are not kept waiting.',
      });
      return false;
    };
    return withTimeout(looked, HOOK_TIME * 1000, warn, BACKGROUND);
  }

  /** Checks a session that may have expired. Returns true if there is no need to check again at this time. */
  async #due(note: Note): Promise<boolean> {
    if ('over' in note) return this.#tell(note.over, note.until);
    const found = await this.#registry.find(note.id);
    if (!found || found.row.told) return true;
    const { row } = found;
    if (isLiving(row) || isBeginning(row)) {
      await this.watch(row);
      return true;
    }
    return row.ended === null ? this.end(note.id, 'expired') : this.#tell(row);
  }

  /** Calls `onEnd`, unless another instance does or did. Returns true if that is certain. For `until`, see {@link Note}. */
  async #tell(over: Row, until?: number): Promise<boolean> {
    const { id } = over;
    const { onEnd, warnOnce, local, ttl } = this.#options;
    const registry = this.#registry;
    // The lease is not renewed: if the hook hangs, another instance gets to try.
    const lease = await holdLease(registry.store, `tell/${sha256(id)}`, {
      ttl: HOOK_TIME,
      wait: 0,
      renew: false,
    });
    if (!lease) return false;
    try {
      const found = await registry.find(id);
      const isSucceeded = found ? isSuccessor(found.row, over) : until !== undefined;
      if (!isSucceeded && (!found || found.row.told)) return true;
      const row = isSucceeded || !found ? over : found.row;
      if (row.ended === null) return true;
      const again = await this.#noteAgain(row, until);
      await onEnd?.(endedSession(row, row.ended));
      if (found && !isSucceeded) await registry.noteTold(row, found, ttl);
      if (again !== undefined) await this.#notes.delete(again);
      if (local && !isSucceeded) await registry.remove(id);
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

  #warnOfStandIn(): void {
    this.#options.warnOnce('stand-in-end-stuck', {
      what: 'onEnd has not returned in a minute for a session that stood in for a transport session, and the next one is prepared.',
      next: 'Let it fail where it waits in vain: then it is called again.',
    });
  }

  /** Schedules another call of `onEnd`, in case this one fails. */
  async #noteAgain(over: Row, until = Date.now() + LINGER * 1000): Promise<string | undefined> {
    const at = Date.now() + HOOK_TIME * 1000;
    if (at > until) return undefined;
    return this.#note(isStandIn(over.id) ? { over, until } : { id: over.id }, at);
  }

  /** Schedules another check of a session. Returns the key of the note, which stays for as long as there may be a record. */
  async #note(note: Note, at: number, until = at): Promise<string> {
    const key = noteKey(note, at);
    const ttl = Math.max(0, (until - Date.now()) / 1000) + 2 * LINGER;
    await this.#notes.put(key, note, { ttl });
    this.#arm(Math.ceil(at / 1000) * 1000);
    return key;
  }

  #dig(id: string, ttl: number): void {
    this.#forget();
    this.#graves.set(id, Date.now() + ttl * 1000);
  }

  /** Forgets expired ends and, if the store knows them too, the oldest. */
  #forget(): void {
    const now = Date.now();
    for (const [old, until] of this.#graves) {
      if (until > now && (this.#options.remembers || this.#graves.size < CACHED)) return;
      this.#graves.delete(old);
    }
  }

  #arm(at: number): void {
    if (this.#closed || at >= this.#next) return;
    this.#next = at;
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

/** Whether a record belongs to a later session that stands in for the same transport session as one that is over. */
function isSuccessor({ ended, created }: Row, over: Row): boolean {
  return ended === null || created !== over.created;
}

function endedSession({ id, label, data }: Row, reason: EndReason): EndedSession {
  const values = data !== null && Object.hasOwn(data, '') ? data[''] : undefined;
  return {
    id,
    label: label ?? undefined,
    reason,
    get: (key) => (values && Object.hasOwn(values, key) ? values[key] : undefined),
  };
}
