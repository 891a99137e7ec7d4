import { type Duration, seconds } from '../../core/duration.ts';
import { ValiseError } from '../../core/errors.ts';
import type { Json } from '../../core/json.ts';
import { sha256 } from '../../core/sha256.ts';
import {
  checkKey,
  checkLayout,
  nextVersion,
  parseEntry,
  toLimit,
  toMilliseconds,
  toText,
  Work,
} from '../driver.ts';
import { endOfPrefix, isVersion, lostReplyError } from '../remote.ts';
import type { Entry, KeyPage, Lease, ListOptions, PutOptions, Store } from '../types.ts';
import { type Outcome, PostgresConnection, type PostgresPool, type Statement } from './connection.ts';

export { type PostgresBusOptions, postgresBus } from './bus.ts';
export type { PostgresPool } from './connection.ts';

/** Options of {@link postgresStore}. */
export interface PostgresStoreOptions {
  /** The table, or `schema.table`. It is created if it does not exist. @defaultValue `'valise'` */
  readonly table?: string;
  /** How long a call waits, including for an unreachable server, before it fails with `store-unavailable`. @defaultValue 10 s */
  readonly timeout?: Duration;
  /** The maximum number of connections, if Valise creates the pool. @defaultValue 10 */
  readonly connections?: number;
  /** Whether to prepare statements. Turned off automatically behind a pooler that swaps connections. @defaultValue true */
  readonly prepare?: boolean;
  /**
   * With `'replicated'`, writes wait for a synchronous standby (`synchronous_commit`), so that a failover does not lose
   * them. Rejected if the server has none. @defaultValue `'local'`, as the server is configured
   */
  readonly durability?: 'local' | 'replicated';
  /** Options for the pool of `pg`, if Valise creates it: `ssl`, `idleTimeoutMillis` and so on. */
  readonly pool?: Readonly<Record<string, unknown>>;
}

/**
 * Opens a store on PostgreSQL 11 or later. Everything is stored in one table.
 *
 * @param source `postgres://user:password@host:5432/database`, with several hosts separated by commas for failover, and
 *   `?target_session_attrs=any|read-write`, `?prepare=false`; or your own `Pool` of `pg`, which you end yourself.
 *
 * @example
 * ```ts
 * import { postgresStore } from 'mcp-valise/store/postgres';
 *
 * const store = await postgresStore('postgres://app:secret@db.example/app', { table: 'valise' });
 * await store.put('cart/7', { items: ['tea'] }, { ttl: 3600 });
 * ```
 */
export async function postgresStore(
  source: string | PostgresPool,
  options: PostgresStoreOptions = {},
): Promise<Store> {
  const { table = 'valise', timeout = 10, connections = 10, prepare = true, durability, pool } = options;
  const statements = statementsFor(table);
  const isReplicated = durability === 'replicated';
  const connection = await PostgresConnection.open(source, {
    timeout: seconds(timeout) * 1000,
    connections,
    pool: { ...(isReplicated && { options: '-c synchronous_commit=on' }), ...pool },
  });
  try {
    if (!prepare || (await isPooled(connection))) connection.prepareNothing();
    if (isReplicated) await checkStandby(connection);
    await prepareTable(connection, table);
  } catch (error) {
    await connection.close();
    throw error;
  }
  return new PostgresStore(connection, statements);
}

async function isPooled(connection: PostgresConnection): Promise<boolean> {
  const client = await connection.checkout();
  try {
    return await connection.isPooled(client);
  } finally {
    client.release();
  }
}

async function checkStandby(connection: PostgresConnection): Promise<void> {
  const { rows } = await connection.run({ text: 'SHOW synchronous_standby_names' }, [], true);
  if (rows[0]?.[0] !== '') return;
  throw new ValiseError('store-failed', 'This PostgreSQL has no synchronous standby.', {
    next: "Set synchronous_standby_names on the server, or open the store without durability: 'replicated'.",
  });
}

/** The format of the table, stored in it as a row of kind 2. */
const LAYOUT = 2;

/** Creates or upgrades the table. Any number of processes may do so at once. */
async function prepareTable(connection: PostgresConnection, table: string): Promise<void> {
  const name = quote(table);
  const found = await connection.run({ text: 'SELECT to_regclass($1) IS NOT NULL' }, [name], true);
  if (found.rows[0]?.[0] === true) {
    const layout = await connection.run(
      { text: `SELECT value FROM ${name} WHERE kind = 2 AND key = 'layout'` },
      [],
      true,
    );
    if (checkLayout(`table ${table}`, layout.rows[0]?.[0], LAYOUT)) return;
  }
  const [bare = ''] = table.split('.').slice(-1);
  const schema = table.includes('.') ? `${quote(table.split('.')[0] as string)}.` : '';
  // One text without values is one transaction. IF NOT EXISTS alone fails if two processes run it at the same moment.
  const text = `
    SELECT pg_advisory_xact_lock(hashtext('valise'), hashtext('${table}'));
    CREATE TABLE IF NOT EXISTS ${name} (
      kind smallint NOT NULL,
      key text COLLATE "C" NOT NULL,
      value text NOT NULL,
      version text NOT NULL,
      expires_at timestamptz,
      PRIMARY KEY (kind, key)
    ) WITH (fillfactor = 80);
    ALTER TABLE ${name} SET (fillfactor = 80);
    ALTER TABLE ${name} ADD COLUMN IF NOT EXISTS sweep_at timestamptz DEFAULT now();
    CREATE INDEX IF NOT EXISTS ${quote(`${bare}_sweep_at`)} ON ${name} (sweep_at) WHERE sweep_at IS NOT NULL;
    DROP INDEX IF EXISTS ${schema}${quote(`${bare}_expires_at`)};
    INSERT INTO ${name} (kind, key, value, version, sweep_at) VALUES (2, 'layout', '${LAYOUT}', '', NULL)
      ON CONFLICT (kind, key) DO NOTHING;`;
  await connection.run({ text }, [], true);
}

/** The statements of a store on one table. */
type Statements = Readonly<Record<keyof ReturnType<typeof textsFor>, Statement>>;

/** Names statements by a digest of their text: behind a pooler, two texts with the same name would be confused. */
function statementsFor(table: string): Statements {
  const named = Object.entries(textsFor(quote(table))).map(([name, text]) => {
    const digest = sha256(text, 'hex').slice(0, 16);
    return [name, { name: `valise_${name}_${digest}`, text }];
  });
  return Object.fromEntries(named) as Statements;
}

/*
 * Rows of kind 0 are entries. Rows of kind 1 are leases: `version` is the holder, `value` is the fence. All times are
 * the server's. Conditions of writes read the clock after waiting for the row, not before. Every conditional write may
 * arrive twice, so it also accepts the version that it would write itself. `expires_at` is exact and not indexed, so
 * that updates stay HOT. `sweep_at` is indexed, says when to check a row again, and does not change with `expires_at`.
 */
function textsFor(t: string) {
  const lives = 'expires_at IS NULL OR expires_at > statement_timestamp()';
  const livesNow = `${t}.expires_at IS NULL OR ${t}.expires_at > clock_timestamp()`;
  const end = (value: string) => `clock_timestamp() + ${value}::float8 * interval '1 millisecond'`;
  const microseconds = 'floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint';
  const insert = `INSERT INTO ${t} (kind, key, value, version, expires_at, sweep_at)
    VALUES (0, $1, $2, $3, ${end('$4')}, ${end('$4')})
    ON CONFLICT (kind, key) DO UPDATE SET value = excluded.value, version = excluded.version, expires_at = excluded.expires_at,
      sweep_at = coalesce(${t}.sweep_at, excluded.sweep_at)`;
  const page = `SELECT key FROM ${t} WHERE kind = 0 AND (${lives}) AND key >= $1 AND key > $2`;
  const longAgo = "statement_timestamp() - interval '10 minutes'";
  return {
    // The result is one text, in the format of parseEntry, because every further column costs as much again as a simple row.
    get: `SELECT concat_ws(' ', version, coalesce(floor(extract(epoch FROM expires_at) * 1000)::bigint, 0), value) FROM ${t}
      WHERE kind = 0 AND key = $1 AND (${lives})`,
    put: insert,
    putAbsent: `${insert} WHERE NOT (${livesNow}) OR ${t}.version = $3`,
    putVersion: `UPDATE ${t} SET value = $2, version = $3, expires_at = ${end('$4')}, sweep_at = coalesce(sweep_at, ${end('$4')})
      WHERE kind = 0 AND key = $1 AND version IN ($5, $3) AND (${livesNow})`,
    remove: `DELETE FROM ${t} WHERE kind = 0 AND key = $1 RETURNING ${livesNow}`,
    removeVersion: `DELETE FROM ${t} WHERE kind = 0 AND key = $1 AND version = $2 RETURNING ${livesNow}`,
    list: `${page} AND key < $4 ORDER BY key LIMIT $3`,
    listAll: `${page} ORDER BY key LIMIT $3`,
    // The fence is the time or one more than the last fence, so it increases even if rows were lost.
    lease: `INSERT INTO ${t} (kind, key, value, version, expires_at, sweep_at)
      VALUES (1, $1, ${microseconds}, $2, ${end('$3')}, ${end('$3')})
      ON CONFLICT (kind, key) DO UPDATE SET
        value = CASE WHEN ${t}.version = $2 THEN ${t}.value ELSE greatest(${t}.value::bigint + 1, ${microseconds})::text END,
        version = excluded.version, expires_at = excluded.expires_at, sweep_at = coalesce(${t}.sweep_at, excluded.sweep_at)
      WHERE NOT (${livesNow}) OR ${t}.version = $2 RETURNING value`,
    renew: `UPDATE ${t} SET expires_at = ${end('$3')} WHERE kind = 1 AND key = $1 AND version = $2 AND (${livesNow})`,
    // The row stays for a while, because the fence of the next holder continues from it.
    release: `UPDATE ${t} SET expires_at = least(expires_at, clock_timestamp()) WHERE kind = 1 AND key = $1 AND version = $2`,
    sweep: `WITH due AS MATERIALIZED (SELECT kind, key FROM ${t} WHERE sweep_at < ${longAgo}
        ORDER BY sweep_at LIMIT 500 FOR UPDATE SKIP LOCKED),
      gone AS (DELETE FROM ${t} old USING due WHERE old.kind = due.kind AND old.key = due.key AND old.expires_at < ${longAgo})
      UPDATE ${t} kept SET sweep_at = kept.expires_at FROM due
        WHERE kept.kind = due.kind AND kept.key = due.key AND (kept.expires_at IS NULL OR kept.expires_at >= ${longAgo})`,
  };
}

function quote(table: string): string {
  if (!/^([a-z_][a-z0-9_]{0,62}\.)?[a-z_][a-z0-9_]{0,50}$/.test(table.replace(/_(expires|sweep)_at$/, ''))) {
    throw new ValiseError('store-invalid', `${JSON.stringify(table)} cannot be the name of a table.`, {
      next: 'Use small letters, digits and _, at most 51, with a schema and a dot before it if you like.',
    });
  }
  return table
    .split('.')
    .map((part) => `"${part}"`)
    .join('.');
}

/** One in this many writes with a lifetime also removes expired rows, more of them than were written since. */
const SWEEP_EVERY = 128;

/** The result of a statement that does not have to be sent. */
const NOTHING: Outcome = { rows: [], rowCount: 0 };

class PostgresStore implements Store {
  readonly #connection: PostgresConnection;
  readonly #sql: Statements;
  readonly #work = new Work();
  // A random start lets sweeps happen even if each process makes only a few writes.
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
          return this.#connection.run(this.#sql.putVersion, [...values, ifVersion], true);
        return this.#connection.run(ifAbsent ? this.#sql.putAbsent : this.#sql.put, values, true);
      },
      ({ rowCount, mayHaveRunBefore }) => {
        if (ttl !== undefined) this.#sweepSometimes();
        if (rowCount === 1) return version;
        // The first delivery may have succeeded and been overwritten since, which is not a conflict.
        if (mayHaveRunBefore) throw lostReplyError('PostgreSQL');
        return undefined;
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
      // No key contains NUL, and PostgreSQL rejects it. Text after it makes no difference.
      if (prefix.includes('\0')) return { keys: [] };
      const [after = ''] = (options.cursor ?? '').split('\0', 1);
      const end = endOfPrefix(prefix);
      // One extra row shows whether there is another page.
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
      const { rows } = await this.#connection.run(this.#sql.lease, [key, holder, toMilliseconds(ttl)], true);
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
          return (await this.#connection.run(this.#sql.renew, values, true)).rowCount === 1;
        }),
      release: async () => {
        // A lease that cannot be released expires by itself, so the work done under it does not fail.
        await this.#work
          .run(() => this.#connection.run(this.#sql.release, [key, holder], true))
          .catch(() => {});
      },
    };
  }

  #sweepSometimes(): void {
    if (--this.#untilSweep > 0) return;
    this.#untilSweep = SWEEP_EVERY;
    // Nobody waits for the sweep. If it fails, the next one does its work.
    this.#work.run(() => this.#connection.run(this.#sql.sweep, [])).catch(() => {});
  }
}
