import { messageOf } from '../../errors.ts';
import type { ServerContext } from '../context.ts';
import type { EndedSession, EndReason } from './hooks.ts';
import { digest, LINGER, type Registry } from './registry.ts';
import { HOOK_TIME, isBeginning, isLiving, type Row } from './row.ts';

/** What the end of sessions needs to know. */
export interface EndingsOptions {
  readonly registry: Registry;
  /** True where the registry is in this process's memory alone. */
  readonly local: boolean;
  /** How long a seal of a session can still be shown, in seconds. */
  readonly ttl: number;
  readonly onEnd: ((session: EndedSession) => void | Promise<void>) | undefined;
  /** Hears of every end at once, on the instance that ended the session. */
  readonly onOver: (id: string) => void;
  readonly warnOnce: ServerContext['warnOnce'];
}

const SWEEP = 30;
const TRIES = 100;
const MAX_GRAVES = 100_000;

/** Ends sessions, everywhere at once where they share a store, and tells the author of each end once. */
export class Endings {
  readonly #options: EndingsOptions;
  readonly #graves = new Map<string, number>();
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

  /** Ends a session that came to nothing although the author's hook is done: only now is there something to free. */
  async endUnborn(row: Row): Promise<void> {
    for (let tries = 0; tries < TRIES; tries++) {
      const found = await this.#registry.find(row.id);
      if (await this.#bury({ ...row, ended: found?.row.ended ?? 'revoked' }, found?.version)) return;
    }
  }

  /** Begins a session in the place of one that is over, which ends now where it ran out unnoticed; false where it lives. */
  async claim(row: Row): Promise<boolean> {
    const claimed = await this.#registry.claim(row);
    if (!claimed) return false;
    const { before } = claimed;
    if (before?.ended === null && this.#options.onEnd)
      this.#tell({ ...before, ended: 'expired' }).catch(() => undefined);
    await this.watch(row);
    return true;
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
    if ((await registry.bury(over, version, Math.max(ttl, onEnd ? LINGER : 0))) === undefined) return false;
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
        const at = Number(key.split('/')[1]) * 1000;
        if (at > now) {
          this.#arm(at);
          return;
        }
        const id = (await store.get(key))?.value;
        if (typeof id === 'string' && !(await this.#due(id))) continue;
        await store.delete(key);
      }
      cursor = page.cursor;
      if (cursor === undefined) return;
    }
  }

  /** Looks at a session whose time may be over; true where there is no reason to look again at this time. */
  async #due(id: string): Promise<boolean> {
    const found = await this.#registry.find(id);
    if (!found || found.row.told) return true;
    const { row } = found;
    if (isLiving(row) || isBeginning(row)) {
      await this.watch(row);
      return true;
    }
    return row.ended === null ? this.end(id, 'expired') : this.#tell(row);
  }

  /** Tells the author, unless another instance does or did; true where it is known to have happened. */
  async #tell(over: Row): Promise<boolean> {
    const { id } = over;
    const { onEnd, warnOnce, local, ttl } = this.#options;
    const registry = this.#registry;
    const lease = await registry.store.lease(`tell/${digest(id)}`, HOOK_TIME);
    if (!lease) return false;
    try {
      const found = await registry.find(id);
      if (!found || found.row.told) return true;
      // A session that stands in for a transport's has a successor of the same id, maybe already.
      const isSucceeded = found.row.ended === null;
      const row = isSucceeded ? over : found.row;
      if (row.ended === null) return true;
      const again = await this.#note(id, Date.now() + HOOK_TIME * 1000);
      await onEnd?.(endedSession(row, row.ended));
      if (!isSucceeded) await registry.bury({ ...row, told: true, data: null }, found.version, ttl);
      await registry.store.delete(again);
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

  /** Has `id` looked at again at a time; the key of the note comes back. It stays for as long as there may be a row. */
  async #note(id: string, at: number, until = at): Promise<string> {
    const key = dueKey(at, id);
    await this.#registry.store.put(key, id, { ttl: Math.max(0, (until - Date.now()) / 1000) + 2 * LINGER });
    this.#arm(Math.ceil(at / 1000) * 1000);
    return key;
  }

  #dig(id: string, ttl: number): void {
    const now = Date.now();
    for (const [old, until] of this.#graves) {
      if (until > now && this.#graves.size < MAX_GRAVES) break;
      this.#graves.delete(old);
    }
    this.#graves.set(id, now + ttl * 1000);
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

/** Sorts by time: lists come in this order. */
function dueKey(at: number, id: string): string {
  return `due/${String(Math.ceil(at / 1000)).padStart(12, '0')}/${digest(id)}`;
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
