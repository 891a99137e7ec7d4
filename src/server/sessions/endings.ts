import { messageOf } from '../../errors.ts';
import { sha256 } from '../../sha256.ts';
import { withTimeout } from '../../store/kit/timeout.ts';
import type { ServerContext } from '../context.ts';
import type { EndedSession, EndReason } from './hooks.ts';
import { type Note, noteJson, noteKey, readNote, timeOf } from './note.ts';
import { type Found, LINGER, type Registry } from './registry.ts';
import { HOOK_TIME, isBeginning, isLiving, isStandIn, type Row } from './row.ts';
import { tooMany } from './shelf.ts';

/** What the end of sessions needs to know. */
export interface EndingsOptions {
  readonly registry: Registry;
  /** True where the registry is in this process's memory alone. */
  readonly local: boolean;
  /** True where only this process remembers that a session is over, which can still prove itself. */
  readonly remembers: boolean;
  /** How many ends this process remembers before no session begins any more. */
  readonly maxEnded: number;
  /** How long a seal of a session can still be shown, in seconds. */
  readonly ttl: number;
  readonly onEnd: ((session: EndedSession) => void | Promise<void>) | undefined;
  /** Hears of every end at once, on the instance that ended the session. */
  readonly onOver: (id: string) => void;
  readonly warnOnce: ServerContext['warnOnce'];
}

const SWEEP = 30;
const TRIES = 100;
/** Where a store knows it too, how many ends are remembered in order not to ask it. */
const CACHED = 10_000;
/** How long the next preparation waits for the end of the one before, in seconds: by then its client has given up. */
const PATIENCE = 60;
/** A server that has nothing else to do may end. */
const BACKGROUND = { background: true };

/** Ends sessions, everywhere at once where they share a store, and tells the author of each end once. */
export class Endings {
  readonly #options: EndingsOptions;
  readonly #graves = new Map<string, number>();
  /** What a sweep of this process is looking at, or has left behind while a hook does not return. */
  readonly #underWay = new Set<string>();
  #timer: NodeJS.Timeout | undefined;
  #next = Number.POSITIVE_INFINITY;
  #closed = false;
  #sweeping: Promise<void> | undefined;

  constructor(options: EndingsOptions) {
    this.#options = options;
    if (options.onEnd) this.#arm(Date.now() + SWEEP * 1000);
  }

  /** True for a session that ended in this process. Asks no store. */
  isOver(id: string): boolean {
    return (this.#graves.get(id) ?? 0) > Date.now();
  }

  /** Throws where so many sessions have ended that one more could not be remembered: none begins until seals have run out. */
  checkRoom(): void {
    const { remembers, maxEnded } = this.#options;
    if (!remembers || this.#graves.size < maxEnded) return;
    this.#forget();
    if (this.#graves.size >= maxEnded) throw tooMany('sessions.maxEnded');
  }

  /** Ends a session. `unknown` is the row to write where there is none: a sealed session proves itself. */
  async end(id: string, reason: EndReason, unknown?: Row): Promise<boolean> {
    for (let tries = 0; tries < TRIES; tries++) {
      const found = await this.#registry.find(id);
      if (!found && this.isOver(id)) return false;
      const row = found?.row ?? unknown;
      if (!row || row.ended !== null || (reason === 'expired' && isLiving(row))) return false;
      if (await this.#bury({ ...row, ended: reason }, found?.version)) return true;
    }
    return false;
  }

  /** True once nothing is looked after any more. */
  get isClosed(): boolean {
    return this.#closed;
  }

  /** Ends a session that came to nothing although the author's hook is done: only now is there something to free. */
  async endUnborn(row: Row): Promise<EndReason> {
    for (let tries = 0; tries < TRIES; tries++) {
      const found = await this.#registry.find(row.id);
      const over = { ...row, ended: found?.row.ended ?? 'revoked' };
      const isOurs = !found || found.row.created === row.created;
      if (isOurs ? await this.#bury(over, found?.version) : await this.#tell(over)) return over.ended;
    }
    return 'revoked';
  }

  /** Begins a session in the place of one that is over, which ends now where it ran out unnoticed; undefined where it lives. */
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
    // What is freed now must not be what is prepared next under the same id.
    if (row.beginning && told)
      await withTimeout(told, PATIENCE * 1000, () => this.#warnOfStandIn(), BACKGROUND);
    return claimed;
  }

  /** Has a session looked at when its time is over, or earlier. */
  async watch({ id, expires }: Pick<Row, 'id' | 'expires'>, at = expires): Promise<void> {
    if (!this.#options.onEnd) return;
    await this.#note(id, Math.min(at, expires), expires);
  }

  /** Ends every session whose time is over. Also runs by itself. */
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

  /** Writes that a session is over, and says so; false where somebody else has changed its row. */
  async #bury(over: Row, version: string | undefined): Promise<boolean> {
    const { registry, local, ttl, onEnd, onOver } = this.#options;
    const { id } = over;
    // Its state is for onEnd alone.
    const kept = onEnd ? over : { ...over, data: null };
    if ((await registry.bury(kept, version, Math.max(ttl, onEnd ? LINGER : 0))) === undefined) return false;
    this.#dig(id, ttl);
    onOver(id);
    await registry.unlist(over);
    if (isBeginning(over)) return true;
    if (onEnd) await this.#tell(over);
    else if (local) await registry.remove(id);
    return true;
  }

  async #sweep(): Promise<void> {
    this.#next = Number.POSITIVE_INFINITY;
    const { store } = this.#registry;
    const now = Date.now();
    for (let cursor: string | undefined; !this.#closed; ) {
      const page = await store.list('due/', { limit: 100, ...(cursor !== undefined && { cursor }) });
      for (const key of page.keys) {
        const at = timeOf(key);
        if (at > now) {
          this.#arm(at);
          return;
        }
        const note = readNote((await store.get(key))?.value);
        if (note !== undefined && !(await this.#look(note))) continue;
        await store.delete(key);
      }
      cursor = page.cursor;
      if (cursor === undefined) return;
    }
  }

  /** As {@link #due}, and goes on without it where a hook does not return: others are to be told of their ends too. */
  #look(note: Note): Promise<boolean> {
    const whose = noteKey(note, 0);
    if (this.#underWay.has(whose)) return Promise.resolve(false);
    this.#underWay.add(whose);
    const looked = this.#due(note).finally(() => this.#underWay.delete(whose));
    const warn = (): false => {
      this.#options.warnOnce('session-end-stuck', {
        what: 'onEnd has not returned for a session in five minutes.',
        next: 'Let it fail where it waits in vain: then it is called again. Other sessions are not kept waiting.',
      });
      return false;
    };
    return withTimeout(looked, HOOK_TIME * 1000, warn, BACKGROUND);
  }

  /** Looks at a session whose time may be over; true where there is no reason to look again at this time. */
  async #due(note: Note): Promise<boolean> {
    if (typeof note !== 'string') return this.#tell(note.over, note.until);
    const found = await this.#registry.find(note);
    if (!found || found.row.told) return true;
    const { row } = found;
    if (isLiving(row) || isBeginning(row)) {
      await this.watch(row);
      return true;
    }
    return row.ended === null ? this.end(note, 'expired') : this.#tell(row);
  }

  /** Tells the author, unless another instance does or did; true where it is known to have happened. `until`: see {@link Note}. */
  async #tell(over: Row, until?: number): Promise<boolean> {
    const { id } = over;
    const { onEnd, warnOnce, local, ttl } = this.#options;
    const registry = this.#registry;
    const lease = await registry.store.lease(`tell/${sha256(id)}`, HOOK_TIME);
    if (!lease) return false;
    try {
      const found = await registry.find(id);
      const isSucceeded = found ? isSuccessor(found.row, over) : until !== undefined;
      if (!isSucceeded && (!found || found.row.told)) return true;
      const row = isSucceeded || !found ? over : found.row;
      if (row.ended === null) return true;
      const again = await this.#noteAgain(row, until);
      await onEnd?.(endedSession(row, row.ended));
      if (found && !isSucceeded) await registry.bury({ ...row, told: true, data: null }, found.version, ttl);
      if (again !== undefined) await registry.store.delete(again);
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

  /** Has the end of a session told again, should this time fail. */
  async #noteAgain(over: Row, until = Date.now() + LINGER * 1000): Promise<string | undefined> {
    const at = Date.now() + HOOK_TIME * 1000;
    if (at > until) return undefined;
    return this.#note(isStandIn(over.id) ? { over, until } : over.id, at);
  }

  /** Has a session looked at again at a time; the key of the note comes back. It stays for as long as there may be a row. */
  async #note(note: Note, at: number, until = at): Promise<string> {
    const key = noteKey(note, at);
    const ttl = Math.max(0, (until - Date.now()) / 1000) + 2 * LINGER;
    await this.#registry.store.put(key, noteJson(note), { ttl });
    this.#arm(Math.ceil(at / 1000) * 1000);
    return key;
  }

  #dig(id: string, ttl: number): void {
    this.#forget();
    this.#graves.set(id, Date.now() + ttl * 1000);
  }

  /** Forgets what has run out; where the store knows too, also what is oldest. */
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
    // A server that has nothing else to do may end.
    this.#timer.unref();
  }
}

/** True where a row is of another session than one that is over: it stands in for the same session of a transport. */
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
