import { setTimeout as pause } from 'node:timers/promises';
import { ValiseError } from '../../core/errors.ts';
import type { Json } from '../../core/json.ts';
import {
  checkKey,
  closedError,
  nextVersion,
  parseValue,
  toLimit,
  toMilliseconds,
  toText,
} from '../driver.ts';
import type { LocalStoreOptions } from '../file/store.ts';
import { SEAL_MARK, sealedError, untilSealed } from '../plain.ts';
import { privateFile, statOf } from '../private-file.ts';
import { sealedStore, toKeyring } from '../sealed.ts';
import type { Entry, EntryPage, KeyPage, Lease, ListOptions, PutOptions, Store } from '../types.ts';
import { checkParts, freeReserve, keepReserve, movedError, openSqliteFile, sqliteError } from './file.ts';
import { type Database, errorKindOf, loadSqlite, type Statement } from './library.ts';

export type { LocalStoreOptions } from '../file/store.ts';

const BUSY_SECONDS = 15;
/** The number of writes with a lifetime between two sweeps for expired entries. */
const SWEEP_EVERY = 128;
/** How long writes proceed without checking again whether the file is still there, in milliseconds. */
const LOOK_EVERY = 1000;

/**
 * Creates a store in an SQLite database that several processes can share: the embedded default. Uses Node's built-in
 * SQLite (22.13 and later), or better-sqlite3 12. Only its owner can read the file.
 *
 * Written data survives the end of the process. A power failure can undo the last writes, but never damages the file.
 *
 * @example
 * ```ts
 * import { sqliteStore } from 'mcp-valise/store/sqlite';
 *
 * const store = sqliteStore('~/.valise/state.db');
 * ```
 */
export function sqliteStore(path: string, { keys }: LocalStoreOptions = {}): Store {
  const ring = toKeyring(keys);
  const store = new SqliteStore(path);
  if (ring) return sealedStore(store, ring);
  if (store.has(SEAL_MARK)) {
    void store.close();
    throw sealedError(path);
  }
  return untilSealed(store, path);
}

/** Opens the database without unsealing it, sealed or not. */
export function plainSqliteStore(path: string): Store {
  return new SqliteStore(path);
}

interface KeyRow {
  readonly key: string;
}

interface Row {
  readonly value: string;
  readonly version: string;
  readonly expires: number | null;
}

class SqliteStore implements Store {
  readonly #file: string;
  readonly #database: Database;
  readonly #statements: Statements;
  readonly #waiting = new Set<Promise<unknown>>();
  #untilSweep = 0;
  #closed = false;
  #broken: Error | undefined;
  readonly #inode: number | undefined;
  #looked = performance.now();

  constructor(path: string) {
    loadSqlite();
    this.#file = privateFile(path);
    this.#database = openSqliteFile(this.#file);
    try {
      this.#inode = statOf(this.#file)?.ino;
      this.#statements = prepareStatements(this.#database);
    } catch (error) {
      this.#database.close();
      throw sqliteError(error, this.#file);
    }
  }

  has(key: string): boolean {
    return this.#statements.get.get(key) !== undefined;
  }

  async get(key: string): Promise<Entry | undefined> {
    this.#check(key);
    const row = (await this.#do(() => this.#statements.get.get(key))) as Row | undefined;
    return row === undefined || (row.expires ?? Number.POSITIVE_INFINITY) <= Date.now()
      ? undefined
      : toEntry(key, row);
  }

  async put(key: string, value: Json, options?: PutOptions): Promise<string | undefined> {
    this.#check(key);
    const text = toText(key, value);
    const version = nextVersion();
    if (options === undefined) {
      await this.#write(() => this.#statements.put.run(key, text, version, null));
      return version;
    }
    const { ttl, ifVersion, ifAbsent } = options;
    const length = ttl === undefined ? undefined : toMilliseconds(ttl);
    // An entry cannot have a version and be absent.
    if (ifAbsent && ifVersion !== undefined) return undefined;
    const { put, putIfVersion, putIfAbsent } = this.#statements;
    const { changes } = await this.#write(() => {
      const now = Date.now();
      const expires = length === undefined ? null : now + length;
      if (ifVersion !== undefined) return putIfVersion.run(text, version, expires, key, ifVersion, now);
      if (ifAbsent) return putIfAbsent.run(key, text, version, expires, now);
      return put.run(key, text, version, expires);
    });
    if (length !== undefined) this.#sweep();
    return Number(changes) === 0 ? undefined : version;
  }

  async delete(key: string, { ifVersion }: { readonly ifVersion?: string } = {}): Promise<boolean> {
    this.#check(key);
    const { delete: all, deleteIfVersion } = this.#statements;
    const { changes } = await this.#remove(() =>
      ifVersion === undefined ? all.run(key, Date.now()) : deleteIfVersion.run(key, ifVersion, Date.now()),
    );
    return Number(changes) > 0;
  }

  async list(prefix: string, options: ListOptions = {}): Promise<KeyPage> {
    const { listFrom, listAfter } = this.#statements;
    const { rows, ...rest } = await this.#page<KeyRow>(listFrom, listAfter, prefix, options);
    return { keys: rows.map(({ key }) => key), ...rest };
  }

  async entries(prefix: string, options: ListOptions = {}): Promise<EntryPage> {
    const { entriesFrom, entriesAfter } = this.#statements;
    const { rows, ...rest } = await this.#page<KeyRow & Row>(entriesFrom, entriesAfter, prefix, options);
    return { entries: rows.map((row) => [row.key, toEntry(row.key, row)] as const), ...rest };
  }

  async lease(key: string, ttl: number): Promise<Lease | undefined> {
    this.#check(key);
    const length = toMilliseconds(ttl);
    const { lease, renew, release } = this.#statements;
    const row = (await this.#write(() => {
      const now = Date.now();
      return lease.get(key, now + length, key, now);
    })) as { readonly fence: number } | undefined;
    if (row === undefined) return undefined;
    const { fence } = row;
    return {
      fence,
      renew: async (again) => {
        if (this.#closed) throw closedError();
        const more = toMilliseconds(again);
        const { changes } = await this.#write(() => renew.run(Date.now() + more, fence, Date.now()));
        return Number(changes) > 0;
      },
      release: async () => {
        if (!this.#closed) await this.#do(() => release.run(fence));
      },
    };
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    await Promise.allSettled(this.#waiting);
    if (this.#broken) return;
    try {
      this.#database.close();
    } catch (error) {
      throw sqliteError(error, this.#file);
    }
  }

  async #page<Found extends KeyRow>(
    from: Statement,
    after: Statement,
    prefix: string,
    { cursor, limit }: ListOptions,
  ): Promise<{ readonly rows: readonly Found[]; readonly cursor?: string }> {
    if (this.#closed) throw closedError();
    const size = toLimit(limit);
    // One extra row shows whether there is another page.
    const rows = (await this.#do(() =>
      cursor === undefined ? from.all(prefix, Date.now(), size + 1) : after.all(cursor, Date.now(), size + 1),
    )) as Found[];
    const end = rows.findIndex(({ key }) => !key.startsWith(prefix));
    if (end !== -1) return { rows: rows.slice(0, end) };
    return rows.length > size
      ? { rows: rows.slice(0, size), cursor: (rows[size - 1] as Found).key }
      : { rows };
  }

  #check(key: string): void {
    if (this.#closed) throw closedError();
    checkKey(key);
  }

  /** Like `#do`, for writes, which must not go to a file that was removed or replaced: SQLite itself does not notice that. */
  #write<Result>(work: () => Result): Result | Promise<Result> {
    if (!this.#broken && performance.now() - this.#looked > LOOK_EVERY) {
      if (statOf(this.#file)?.ino !== this.#inode) {
        this.#database.close();
        this.#broken = movedError(this.#file);
      } else {
        checkParts(this.#file);
        keepReserve(this.#file);
      }
      // This is set last, so that a failing check is repeated until the problem is fixed.
      this.#looked = performance.now();
    }
    return this.#do(work);
  }

  /** Like `#write`, for deletions, which also work while the disk is full. */
  async #remove<Result>(work: () => Result): Promise<Result> {
    try {
      return await this.#write(work);
    } catch (error) {
      const isFull = error instanceof ValiseError && error.code === 'store-full';
      if (!isFull || !freeReserve(this.#file, this.#database)) throw error;
      return this.#do(work);
    }
  }

  /** Runs the work immediately. If another process is writing at this moment, retries later without blocking this process. */
  #do<Result>(work: () => Result): Result | Promise<Result> {
    if (this.#broken) throw this.#broken;
    try {
      return work();
    } catch (error) {
      if (errorKindOf(error) !== 'busy') throw this.#failed(error);
      const waiting = this.#again(work).finally(() => this.#waiting.delete(waiting));
      this.#waiting.add(waiting);
      return waiting;
    }
  }

  async #again<Result>(work: () => Result): Promise<Result> {
    const end = performance.now() + BUSY_SECONDS * 1000;
    for (;;) {
      await pause(1 + Math.random() * 10);
      if (this.#broken) throw this.#broken;
      try {
        return work();
      } catch (error) {
        if (errorKindOf(error) !== 'busy' || performance.now() > end) throw this.#failed(error);
      }
    }
  }

  #failed(error: unknown): Error {
    if (errorKindOf(error) !== 'corrupt') return sqliteError(error, this.#file);
    // This handle stays broken: it must not continue as if the store were empty.
    this.#database.close();
    this.#broken = sqliteError(error, this.#file);
    return this.#broken;
  }

  /** Removes some expired entries every so many writes. */
  #sweep(): void {
    if (this.#untilSweep-- > 0) return;
    this.#untilSweep = SWEEP_EVERY;
    const { sweep, sweepLeases } = this.#statements;
    try {
      sweep.run(Date.now(), 2 * SWEEP_EVERY);
      sweepLeases.run(Date.now());
    } catch {
      // The sweep was not requested by the caller: a write that fails for the same reason reports it, and the next
      // sweep tries again.
    }
  }
}

function toEntry(key: string, { value, version, expires }: Row): Entry {
  const parsed = parseValue(key, value);
  return expires === null ? { value: parsed, version } : { value: parsed, version, expiresAt: expires };
}

type Statements = ReturnType<typeof prepareStatements>;

function prepareStatements(database: Database) {
  const sql = (text: string): Statement => database.prepare(text);
  const upsert = `INSERT INTO entry (key, value, version, expires) VALUES (?, ?, ?, ?)
    ON CONFLICT (key) DO UPDATE SET value = excluded.value, version = excluded.version, expires = excluded.expires`;
  const lives = '(expires IS NULL OR expires > ?)';
  const page = (columns: string, comparison: string) =>
    sql(`SELECT ${columns} FROM entry WHERE key ${comparison} ? AND ${lives} ORDER BY key LIMIT ?`);
  return {
    get: sql('SELECT value, version, expires FROM entry WHERE key = ?'),
    put: sql(upsert),
    putIfAbsent: sql(`${upsert} WHERE entry.expires <= ?`),
    putIfVersion: sql(
      `UPDATE entry SET value = ?, version = ?, expires = ? WHERE key = ? AND version = ? AND ${lives}`,
    ),
    delete: sql(`DELETE FROM entry WHERE key = ? AND ${lives}`),
    deleteIfVersion: sql(`DELETE FROM entry WHERE key = ? AND version = ? AND ${lives}`),
    listFrom: page('key', '>='),
    listAfter: page('key', '>'),
    entriesFrom: page('key, value, version, expires', '>='),
    entriesAfter: page('key, value, version, expires', '>'),
    // A replaced lease is an expired one. AUTOINCREMENT makes the fence increase even after it is gone.
    lease: sql(`INSERT OR REPLACE INTO lease (key, until) SELECT ?, ?
      WHERE NOT EXISTS (SELECT 1 FROM lease WHERE key = ? AND until > ?) RETURNING fence`),
    renew: sql('UPDATE lease SET until = ? WHERE fence = ? AND until > ?'),
    release: sql('DELETE FROM lease WHERE fence = ?'),
    sweep: sql('DELETE FROM entry WHERE key IN (SELECT key FROM entry WHERE expires <= ? LIMIT ?)'),
    sweepLeases: sql('DELETE FROM lease WHERE until <= ?'),
  };
}
