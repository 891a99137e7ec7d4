import { type Duration, seconds } from '../duration.ts';
import type { Json } from '../json.ts';
import { checkKey, toLimit, toMilliseconds, toText } from './check.ts';
import { parseEntry } from './entry-text.ts';
import { PostgresConnection, type PostgresPool, type Rows } from './postgres-connection.ts';
import { createTable, type Statements, statementsFor } from './postgres-sql.ts';
import { endOfPrefix, isVersion } from './remote.ts';
import type { Entry, KeyPage, Lease, ListOptions, PutOptions, Store } from './types.ts';
import { nextVersion } from './version.ts';
import { Work } from './work.ts';

export { openPostgresBus, type PostgresBusOptions } from './bus-postgres.ts';
export type { PostgresClient, PostgresNotification, PostgresPool, Rows } from './postgres-connection.ts';

/** How a PostgreSQL store behaves. */
export interface PostgresStoreOptions {
  /** The table, or `schema.table`; `valise` unless told. It is created where it is missing. */
  readonly table?: string;
  /** How long a call waits, also for a server that is away, before it fails with `store-unavailable`; 10 s unless told. */
  readonly timeout?: Duration;
  /** The most connections to hold, where Valise makes the pool; 10 unless told. */
  readonly connections?: number;
  /** Whether statements are prepared; true unless told. A pooler between that swaps connections may need false. */
  readonly prepare?: boolean;
}

/**
 * Opens a store on PostgreSQL 11 or later: `postgres://user:password@host:5432/database`, or a `Pool` of `pg`,
 * which stays yours to end. Everything is in one table.
 *
 * @example
 * ```ts
 * import { openPostgresStore } from 'mcp-valise/store/postgres';
 *
 * const store = await openPostgresStore('postgres://app:secret@db.example/app', { table: 'valise' });
 * await store.put('cart/7', { items: ['tea'] }, { ttl: 3600 });
 * ```
 */
export async function openPostgresStore(
  source: string | PostgresPool,
  options: PostgresStoreOptions = {},
): Promise<Store> {
  const { table = 'valise', timeout = 10, connections = 10, prepare = true } = options;
  const statements = statementsFor(table, prepare);
  const connection = await PostgresConnection.open(source, seconds(timeout) * 1000, connections);
  try {
    await createTable(connection, table);
  } catch (error) {
    await connection.close();
    throw error;
  }
  return new PostgresStore(connection, statements);
}

/** One in so many writes with a lifetime also removes rows whose time is over, more of them than were written since. */
const SWEEP_EVERY = 128;

/** What a statement brings that need not be asked. */
const NOTHING: Rows = { rows: [], rowCount: 0 };

class PostgresStore implements Store {
  readonly #connection: PostgresConnection;
  readonly #sql: Statements;
  readonly #work = new Work();
  // Where processes live for a few writes only, each should not start from the beginning.
  #untilSweep = Math.ceil(Math.random() * SWEEP_EVERY);

  constructor(connection: PostgresConnection, statements: Statements) {
    this.#connection = connection;
    this.#sql = statements;
  }

  get(key: string): Promise<Entry | undefined> {
    return this.#work.run(
      () => {
        checkKey(key);
        return this.#connection.run(this.#sql.get, [key], true);
      },
      ({ rows }) => rows[0] && parseEntry(key, rows[0][0] as string),
    );
  }

  put(key: string, value: Json, { ttl, ifVersion, ifAbsent }: PutOptions = {}): Promise<string | undefined> {
    const version = nextVersion();
    return this.#work.run(
      () => {
        checkKey(key);
        const text = toText(key, value);
        const life = ttl === undefined ? null : toMilliseconds(ttl);
        if (ifVersion !== undefined && (ifAbsent || !isVersion(ifVersion))) return Promise.resolve(NOTHING);
        const values = [key, text, version, life];
        if (ifVersion !== undefined)
          return this.#connection.run(this.#sql.putVersion, [...values, ifVersion]);
        return this.#connection.run(ifAbsent ? this.#sql.putAbsent : this.#sql.put, values);
      },
      ({ rowCount }) => {
        if (ttl !== undefined) this.#sweepSometimes();
        return rowCount === 1 ? version : undefined;
      },
    );
  }

  delete(key: string, { ifVersion }: { readonly ifVersion?: string } = {}): Promise<boolean> {
    return this.#work.run(async () => {
      checkKey(key);
      if (ifVersion !== undefined && !isVersion(ifVersion)) return false;
      const { rows } = await (ifVersion === undefined
        ? this.#connection.run(this.#sql.remove, [key])
        : this.#connection.run(this.#sql.removeVersion, [key, ifVersion]));
      return rows[0]?.[0] === true;
    });
  }

  list(prefix: string, options: ListOptions = {}): Promise<KeyPage> {
    return this.#work.run(async () => {
      const limit = toLimit(options.limit);
      // No key holds NUL, and PostgreSQL takes none: whatever follows it makes no difference.
      if (prefix.includes('\0')) return { keys: [] };
      const [after = ''] = (options.cursor ?? '').split('\0', 1);
      const end = endOfPrefix(prefix);
      // One more than asked for says whether there is another page.
      const values = [prefix, after, limit + 1];
      const { rows } = await (end === undefined
        ? this.#connection.run(this.#sql.listAll, values, true)
        : this.#connection.run(this.#sql.list, [...values, end], true));
      const keys = rows.map(([key]) => key as string);
      return keys.length > limit
        ? { keys: keys.slice(0, limit), cursor: keys[limit - 1] as string }
        : { keys };
    });
  }

  lease(key: string, ttl: number): Promise<Lease | undefined> {
    return this.#work.run(async () => {
      checkKey(key);
      const holder = nextVersion();
      const { rows } = await this.#connection.run(this.#sql.lease, [key, holder, toMilliseconds(ttl)]);
      this.#sweepSometimes();
      return rows[0] && this.#held(key, holder, Number(rows[0][0]));
    });
  }

  close(): Promise<void> {
    return this.#work.close(() => this.#connection.close());
  }

  #held(key: string, holder: string, fence: number): Lease {
    return {
      fence,
      renew: (ttl) =>
        this.#work.run(async () => {
          const values = [key, holder, toMilliseconds(ttl)];
          return (await this.#connection.run(this.#sql.renew, values)).rowCount === 1;
        }),
      release: async () => {
        // A lease that cannot be given back ends by itself: no reason to fail what was done under it.
        await this.#work
          .run(() => this.#connection.run(this.#sql.release, [key, holder], true))
          .catch(() => {});
      },
    };
  }

  #sweepSometimes(): void {
    if (--this.#untilSweep > 0) return;
    this.#untilSweep = SWEEP_EVERY;
    // Nobody waits for it, and where it fails the next one does its work.
    this.#work.run(() => this.#connection.run(this.#sql.sweep, [])).catch(() => {});
  }
}
