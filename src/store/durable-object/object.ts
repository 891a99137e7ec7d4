import { ValiseError } from '../../core/errors.ts';
import { checkLayout } from '../driver.ts';
import type { Call, Found, Reply } from './call.ts';

/** A value of a column. */
type SqlValue = string | number | null;

/** The part of a Durable Object's state that is used here. */
export interface DurableObjectState {
  readonly storage: {
    readonly sql: {
      exec(query: string, ...values: SqlValue[]): { toArray(): readonly Readonly<Record<string, unknown>>[] };
    };
  };
}

/** The format of the tables. */
const LAYOUT = 1;
/** The number of writes with a lifetime between two sweeps for expired entries. */
const SWEEP_EVERY = 128;

const TABLES = [
  'CREATE TABLE IF NOT EXISTS entry (key TEXT PRIMARY KEY, text TEXT NOT NULL, version TEXT NOT NULL, expires INTEGER) WITHOUT ROWID',
  'CREATE INDEX IF NOT EXISTS entry_expires ON entry (expires) WHERE expires IS NOT NULL',
  'CREATE TABLE IF NOT EXISTS lease (key TEXT PRIMARY KEY, fence INTEGER NOT NULL, holder TEXT NOT NULL, until INTEGER NOT NULL) WITHOUT ROWID',
  'CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID',
  `INSERT OR IGNORE INTO meta (name, value) VALUES ('layout', ${LAYOUT}), ('fence', 0)`,
];

/**
 * The Durable Object that keeps the entries of `durableObjectStore`, in its SQLite storage. Export it from your Worker,
 * and declare it as a class with SQLite storage (`new_sqlite_classes`).
 *
 * A call never waits between reading and writing, so each one is atomic. A response leaves only when its writes are on disk.
 *
 * @example
 * ```ts
 * export { ValiseStoreObject } from 'mcp-valise/store/durable-object';
 * ```
 */
export class ValiseStoreObject {
  readonly #sql: DurableObjectState['storage']['sql'];
  #isPrepared = false;
  #untilSweep = 0;

  constructor(state: DurableObjectState) {
    this.#sql = state.storage.sql;
  }

  /** Answers a call of `durableObjectStore`. */
  async fetch(request: Request): Promise<Response> {
    const call = (await request.json()) as Call;
    return Response.json(this.#reply(call));
  }

  #reply(call: Call): Reply {
    try {
      this.#prepare();
      return { result: this.#run(call) ?? null };
    } catch (error) {
      if (error instanceof ValiseError) {
        const { code, what, next } = error;
        return { error: { code, what, next } };
      }
      const what = error instanceof Error ? error.message : String(error);
      return {
        error: { code: /SQLITE_FULL|storage limit/i.test(what) ? 'store-full' : 'store-failed', what },
      };
    }
  }

  #prepare(): void {
    if (this.#isPrepared) return;
    for (const table of TABLES) this.#rows(table);
    checkLayout(
      'Durable Object',
      this.#rows("SELECT value FROM meta WHERE name = 'layout'")[0]?.['value'],
      LAYOUT,
    );
    this.#isPrepared = true;
  }

  #run(call: Call): Reply['result'] {
    const now = Date.now();
    switch (call.call) {
      case 'get':
        return this.#living(call.key, now);
      case 'put':
        return this.#put(call, now);
      case 'delete': {
        const found = this.#living(call.key, now);
        if (!found || (call.ifVersion !== undefined && found.version !== call.ifVersion)) return false;
        this.#rows('DELETE FROM entry WHERE key = ?', call.key);
        return true;
      }
      case 'list':
        return this.#list(call, now);
      case 'lease':
        return this.#lease(call, now);
      case 'renew':
        return this.#isHeld(call, now) && this.#hold(call.key, call.fence, call.holder, now + call.ttl);
      case 'release':
        return this.#isHeld(call, now) && this.#hold(call.key, call.fence, call.holder, 0);
    }
  }

  #put(
    { key, text, version, ttl, ifVersion, ifAbsent }: Extract<Call, { call: 'put' }>,
    now: number,
  ): boolean {
    const found = this.#living(key, now);
    // The same call may arrive twice if its reply was lost.
    if (found?.version === version) return true;
    if ((ifAbsent && found) || (ifVersion !== undefined && found?.version !== ifVersion)) return false;
    const expires = ttl === undefined ? null : now + ttl;
    this.#rows(
      'INSERT OR REPLACE INTO entry (key, text, version, expires) VALUES (?, ?, ?, ?)',
      key,
      text,
      version,
      expires,
    );
    if (expires !== null) this.#sweep(now);
    return true;
  }

  #living(key: string, now: number): Found | undefined {
    const [row] = this.#rows(
      'SELECT text, version, expires FROM entry WHERE key = ? AND (expires IS NULL OR expires > ?)',
      key,
      now,
    );
    return row as unknown as Found | undefined;
  }

  #list({ from, after, to, limit }: Extract<Call, { call: 'list' }>, now: number): string[] {
    const rows = this.#rows(
      `SELECT key FROM entry WHERE key ${after ? '>' : '>='} ?1 AND (?2 IS NULL OR key < ?2)
        AND (expires IS NULL OR expires > ?3) ORDER BY key LIMIT ?4`,
      from,
      to ?? null,
      now,
      limit,
    );
    return rows.map(({ key }) => String(key));
  }

  /** Returns the fence, or undefined if another holder has the lease. */
  #lease({ key, ttl, holder }: Extract<Call, { call: 'lease' }>, now: number): number | undefined {
    const [held] = this.#rows('SELECT fence, holder FROM lease WHERE key = ? AND until > ?', key, now);
    if (held) return held['holder'] === holder ? Number(held['fence']) : undefined;
    const [next] = this.#rows("UPDATE meta SET value = value + 1 WHERE name = 'fence' RETURNING value");
    const fence = Number(next?.['value']);
    this.#hold(key, fence, holder, now + ttl);
    return fence;
  }

  #isHeld({ key, fence, holder }: { key: string; fence: number; holder: string }, now: number): boolean {
    const query = 'SELECT 1 FROM lease WHERE key = ? AND fence = ? AND holder = ? AND until > ?';
    return this.#rows(query, key, fence, holder, now).length > 0;
  }

  #hold(key: string, fence: number, holder: string, until: number): true {
    this.#rows(
      'INSERT OR REPLACE INTO lease (key, fence, holder, until) VALUES (?, ?, ?, ?)',
      key,
      fence,
      holder,
      until,
    );
    this.#sweep(Date.now());
    return true;
  }

  /** Removes some expired entries every so many writes. */
  #sweep(now: number): void {
    if (this.#untilSweep-- > 0) return;
    this.#untilSweep = SWEEP_EVERY;
    const expired = 'SELECT key FROM entry WHERE expires <= ? LIMIT ?';
    this.#rows(`DELETE FROM entry WHERE key IN (${expired})`, now, 2 * SWEEP_EVERY);
    this.#rows('DELETE FROM lease WHERE until <= ?', now);
  }

  #rows(query: string, ...values: SqlValue[]): readonly Readonly<Record<string, unknown>>[] {
    return this.#sql.exec(query, ...values).toArray();
  }
}
