import { createHash } from 'node:crypto';
import { inspect } from 'node:util';
import { type PostgresPool, postgresStore } from 'mcp-valise/store/postgres';
import { storeContract } from 'mcp-valise/testing';
import pg from 'pg';
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openBus, openStore } from '../../src/store/index.ts';
import type { Store } from '../../src/store/types.ts';
import { service, uniqueName } from '../services.ts';
import { because } from '../skip.ts';
import { withoutPackages } from './elsewhere-packages.ts';
import { soak, tsx } from './places.ts';

type PostgresClient = Awaited<ReturnType<PostgresPool['connect']>>;

const url = (await service('postgres')) as string;

describe.skipIf(!url)('the PostgreSQL store', because('needs PostgreSQL'), () => {
  storeContract(
    () => {
      const table = uniqueName();
      return {
        open: () => postgresStore(url, { table }),
        process: {
          module: new URL('../../src/store/postgres/store.ts', import.meta.url),
          export: 'postgresStore',
          args: [url, { table }],
        },
      };
    },
    { describe, it },
    { name: 'postgres', execArgv: tsx, scale: soak ? 1 : 0.25 },
  );
});

describe.skipIf(!url)('the PostgreSQL store and bus, by URL', because('needs PostgreSQL'), () => {
  it.each(['postgres:', 'postgresql:'])('openStore and openBus open PostgreSQL with %s', async (protocol) => {
    const prefix = uniqueName();
    const there = url.replace(/^\w+:/, protocol);
    const store = await openStore(there, { prefix, timeout: '5s' });
    const bus = await openBus(there, { timeout: '5s' });
    const version = await store.put('a', 1, { ttl: 60 });
    expect(await store.get('a')).toMatchObject({ value: 1, version });
    const heard: unknown[] = [];
    await bus.subscribe(prefix, (message) => heard.push(message));
    await bus.publish(prefix, 'hello');
    await expect.poll(() => heard).toEqual(['hello']);
    await Promise.all([store.close(), bus.close()]);
  });
});

describe.skipIf(!url)('details of the PostgreSQL store', because('needs PostgreSQL'), () => {
  const pool = new pg.Pool({ connectionString: url, max: 4 });
  let table: string;
  let store: Store;
  beforeEach(async () => {
    table = uniqueName();
    store = await postgresStore(url, { table });
  });
  afterEach(() => store?.close());
  afterAll(() => pool.end());
  const as = (username: string, password = '') => Object.assign(new URL(url), { username, password }).href;
  const count = async (where = 'true') =>
    Number((await pool.query(`SELECT count(*) FROM ${table} WHERE ${where}`)).rows[0].count);

  /** The text of the last statement that a call sends. */
  const lastStatement = async (call: (store: Store) => Promise<unknown>): Promise<string> => {
    let last = '';
    const recording: PostgresPool = {
      async connect() {
        const client: PostgresClient = await pool.connect();
        return {
          ...client,
          on: () => {},
          release: (destroy) => client.release(destroy),
          query(query) {
            last = query.text;
            return client.query(query);
          },
        };
      },
      on: () => {},
      off: () => {},
    };
    const other = await postgresStore(recording, { table });
    await call(other);
    await other.close();
    return last;
  };

  it('The PostgreSQL store creates its table once, even if many open it at the same time', async () => {
    const fresh = uniqueName();
    const stores = await Promise.all(
      Array.from({ length: 12 }, () => postgresStore(url, { table: fresh, connections: 1 })),
    );
    await Promise.all(stores.map((one, n) => one.put(`k${n}`, n)));
    expect((await stores[0]!.list('')).keys.length).toBe(12);
    await Promise.all(stores.map((one) => one.close()));
  });

  it('The PostgreSQL store accepts a schema, and a table that somebody else created for a user who may not', async () => {
    const schema = uniqueName();
    const role = uniqueName();
    await pool.query(`CREATE SCHEMA ${schema}; CREATE ROLE ${role} LOGIN`);
    const asRole = as(role);
    await expect(postgresStore(asRole, { table: `${schema}.state` })).rejects.toMatchObject({
      code: 'store-denied',
    });
    await (await postgresStore(url, { table: `${schema}.state` })).close();
    await pool.query(`GRANT USAGE ON SCHEMA ${schema} TO ${role}; GRANT ALL ON ${schema}.state TO ${role}`);
    const limited = await postgresStore(asRole, { table: `${schema}.state` });
    expect(await limited.put('a', 1)).toEqual(expect.any(String));
    await limited.close();
  });

  it('The PostgreSQL store refuses an invalid table name', async () => {
    for (const bad of ['', 'a b', 'Big', 'a"; DROP TABLE x; --', '1a', 'a.b.c', 'x'.repeat(52)]) {
      await expect(postgresStore(url, { table: bad })).rejects.toMatchObject({ code: 'store-invalid' });
    }
  });

  it('The PostgreSQL store works through a pool of the caller and leaves it open', async () => {
    const other = await postgresStore(pool, { table: uniqueName() });
    await other.put('a', 1);
    expect((await other.get('a'))?.value).toBe(1);
    await other.close();
    expect((await pool.query('SELECT 1 AS one')).rows).toEqual([{ one: 1 }]);
  });

  it('The PostgreSQL store works without prepared statements', async () => {
    const other = await postgresStore(pool, { table, prepare: false });
    const version = (await other.put('a', 1, { ttl: 60 }))!;
    expect(await other.put('a', 2, { ifVersion: version })).toEqual(expect.any(String));
    expect((await other.list('a')).keys).toEqual(['a']);
    expect(await other.delete('a')).toBe(true);
    const { rows } = await pool.query(
      `SELECT name FROM pg_prepared_statements WHERE statement LIKE '%${table}%'`,
    );
    expect(rows).toEqual([]);
    await other.close();
  });

  it('The PostgreSQL store lists by bytes in a database with a language collation, and uses the index', async () => {
    const database = uniqueName();
    await pool.query(
      `CREATE DATABASE ${database} TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en-US' LOCALE 'C.UTF-8'`,
    );
    const there = Object.assign(new URL(url), { pathname: database }).href;
    const other = await postgresStore(there, { table });
    const keys = ['a', 'A', 'b', 'B', 'é', 'z', 'Z', '🧳', '\uffff', 'a b', 'a-b', 'ab'];
    for (const key of keys) await other.put(key, 1);
    const byBytes = [...keys].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
    expect((await other.list('')).keys).toEqual(byBytes);
    expect((await other.list('a')).keys).toEqual(['a', 'a b', 'a-b', 'ab']);
    await other.close();
    await pool.query(`DROP DATABASE ${database} WITH (FORCE)`);
  });

  it('The PostgreSQL store finds a page by its index, however many keys follow the prefix', async () => {
    await pool.query(
      `INSERT INTO ${table} SELECT 0, 'k/' || n, '1', 'v' FROM generate_series(1, 20000) AS n; ANALYZE ${table}`,
    );
    // As the server plans a prepared statement: knowing neither prefix nor cursor.
    const client = await pool.connect();
    const text = await lastStatement((other) => other.list('k/77'));
    await client.query(
      `SET plan_cache_mode = force_generic_plan; PREPARE page (text, text, bigint, text) AS ${text}`,
    );
    const { rows } = await client.query(`EXPLAIN EXECUTE page ('k/77', '', 1001, 'k/78')`);
    client.release(true);
    expect(rows.map((row) => row['QUERY PLAN']).join()).toMatch(
      /Index Cond: [^,]*key >= \$1[^,]*key > \$2[^,]*key < \$4/,
    );
    expect((await store.list('k/77')).keys.length).toBe(111);
  });

  it('The PostgreSQL store counts correctly if transactions are serializable by default', async () => {
    const strict = new pg.Pool({
      connectionString: url,
      options: '-c default_transaction_isolation=serializable',
      max: 4,
    });
    const other = await postgresStore(strict, { table });
    await Promise.all(
      Array.from({ length: 4 }, async () => {
        for (let done = 0; done < 25; ) {
          const entry = await other.get('n');
          const value = ((entry?.value as number) ?? 0) + 1;
          const condition = entry ? { ifVersion: entry.version } : { ifAbsent: true };
          if ((await other.put('n', value, condition)) !== undefined) done++;
        }
      }),
    );
    expect((await other.get('n'))?.value).toBe(100);
    await other.close();
    await strict.end();
  });

  it('The PostgreSQL store deletes long-expired rows with later writes, some at a time, and no live rows', async () => {
    await store.put('lives', 1, { ttl: 3600 });
    await store.put('stays', 1);
    await store.lease('held', 3600);
    await pool.query(
      `INSERT INTO ${table} SELECT n % 2, 'old/' || n, '1', 'v', now() - interval '1 hour', now() - interval '1 hour' FROM generate_series(1, 1200) AS n;
       INSERT INTO ${table} VALUES (1, 'just now', '1', 'v', now(), now())`,
    );
    await expect
      .poll(
        async () => {
          await store.put('lives', 1, { ttl: 3600 });
          return count(`key LIKE 'old/%'`);
        },
        { timeout: 30_000, interval: 1 },
      )
      .toBe(0);
    expect(await count('kind < 2')).toBe(4);
  });

  it('The PostgreSQL store updates rows in place, without touching an index (HOT), though every write changes the expiry', async () => {
    for (let n = 0; n < 20; n++) await store.put(`k${n}`, n, { ttl: 600 });
    await pool.query(`SELECT pg_stat_reset_single_table_counters('${table}'::regclass)`);
    const writer = await postgresStore(url, { table });
    for (let round = 0; round < 25; round++)
      await Promise.all(
        Array.from({ length: 20 }, (_, n) => writer.put(`k${n}`, round, { ttl: 600 + round })),
      );
    // A connection reports its statistics when it ends, or after some seconds.
    await writer.close();
    const updates = async () => {
      const query = `SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = '${table}'`;
      const { rows } = await pool.query(query);
      return { all: Number(rows[0].n_tup_upd), hot: Number(rows[0].n_tup_hot_upd) };
    };
    await expect.poll(async () => (await updates()).all, { timeout: 30_000 }).toBe(500);
    expect((await updates()).hot / 500).toBeGreaterThan(0.9);
  });

  it('The PostgreSQL store upgrades a table of format 1 in place and keeps its entries', async () => {
    const old = uniqueName();
    await pool.query(`CREATE TABLE ${old} (kind smallint NOT NULL, key text COLLATE "C" NOT NULL, value text NOT NULL,
        version text NOT NULL, expires_at timestamptz, PRIMARY KEY (kind, key));
      CREATE INDEX ${old}_expires_at ON ${old} (expires_at) WHERE expires_at IS NOT NULL;
      INSERT INTO ${old} VALUES (0, 'a', '{"n":1}', 'v1', NULL), (0, 'b', '2', 'v2', now() + interval '1 hour')`);
    const stores = await Promise.all([1, 2, 3].map(() => postgresStore(url, { table: old })));
    expect(await stores[0]!.get('a')).toEqual({ value: { n: 1 }, version: 'v1' });
    expect(await stores[1]!.get('b')).toMatchObject({ value: 2, version: 'v2' });
    expect(await stores[2]!.put('a', 2, { ifVersion: 'v1' })).toEqual(expect.any(String));
    const { rows } = await pool.query(
      `SELECT indexname FROM pg_indexes WHERE tablename = '${old}' ORDER BY 1`,
    );
    expect(rows.map(({ indexname }) => indexname)).toEqual([`${old}_pkey`, `${old}_sweep_at`]);
    await Promise.all(stores.map((one) => one.close()));
  });

  it('The PostgreSQL store refuses a table of a later version and changes nothing', async () => {
    await pool.query(`UPDATE ${table} SET value = '3' WHERE kind = 2`);
    await expect(postgresStore(url, { table })).rejects.toMatchObject({ code: 'store-newer' });
    expect(await count()).toBe(1);
  });

  it('The PostgreSQL store names statements by their text, so that two versions behind a pooler never share one', async () => {
    const other = await postgresStore(pool, { table });
    await other.get('a');
    const { rows } = await pool.query('SELECT name, statement FROM pg_prepared_statements');
    const digest = (text: string) => createHash('sha256').update(text).digest('hex').slice(0, 16);
    const ours = rows.filter(({ name }) => name.startsWith('valise_get'));
    for (const { name, statement } of ours) expect(name).toContain(digest(statement));
    await other.close();
  });

  it('The PostgreSQL store uses the first of several hosts that accepts writes', async () => {
    const { port } = new URL(url);
    const several = url.replace(`127.0.0.1:${port}`, `127.0.0.1:1,127.0.0.1:${port}`);
    const other = await postgresStore(several, { table });
    expect(await other.put('a', 1)).toEqual(expect.any(String));
    expect((await store.get('a'))?.value).toBe(1);
    await other.close();
    await expect(postgresStore(`${several}?target_session_attrs=standby`)).rejects.toMatchObject({
      code: 'store-invalid',
    });
  });

  it('The PostgreSQL store refuses replicated durability on a server without a synchronous standby', async () => {
    await expect(postgresStore(url, { table, durability: 'replicated' })).rejects.toMatchObject({
      code: 'store-failed',
    });
  });

  it('The PostgreSQL store continues the fence after the last one, even if clocks went back', async () => {
    const lease = (await store.lease('l', 60))!;
    await lease.release();
    await pool.query(`UPDATE ${table} SET value = '9000000000000000' WHERE kind = 1 AND key = 'l'`);
    expect((await store.lease('l', 60))?.fence).toBe(9_000_000_000_000_001);
  });

  it('The PostgreSQL store accepts any text as a cursor, a prefix or a version', async () => {
    await store.put('b', 1);
    for (const odd of ['\0', 'a\0b', '\ud800', '%', '_', "'", 'a b', '']) {
      expect((await store.list('', { cursor: odd })).keys.length).toBeLessThanOrEqual(1);
      expect((await store.list(odd || 'x')).keys).toEqual([]);
      expect(await store.put('b', 2, { ifVersion: odd })).toBeUndefined();
      expect(await store.delete('b', { ifVersion: odd })).toBe(false);
    }
    const { version } = (await store.get('b'))!;
    expect(await store.put('b', 2, { ifVersion: version, ifAbsent: true })).toBeUndefined();
    expect((await store.list('b', { cursor: 'a' })).keys).toEqual(['b']);
    expect((await store.list('', { cursor: 'a\0b' })).keys).toEqual(['b']);
    expect((await store.list('', { cursor: 'b\0' })).keys).toEqual([]);
  });

  it('The PostgreSQL store reports that another program wrote into its table or dropped it', async () => {
    await store.put('a', 1);
    await pool.query(`UPDATE ${table} SET value = '{broken'`);
    await expect(store.get('a')).rejects.toMatchObject({ code: 'store-corrupt' });
    await pool.query(`DROP TABLE ${table}`);
    await expect(store.get('a')).rejects.toMatchObject({ code: 'store-failed' });
  });

  it('The PostgreSQL store fails with store-read-only if the database accepts no writes, and still reads', async () => {
    await store.put('a', 1);
    const frozen = new pg.Pool({ connectionString: url, options: '-c default_transaction_read_only=on' });
    const other = await postgresStore(frozen, { table });
    expect((await other.get('a'))?.value).toBe(1);
    await expect(other.put('a', 2)).rejects.toMatchObject({ code: 'store-read-only' });
    await other.close();
    await frozen.end();
  });

  it('The PostgreSQL store fails at once with store-denied for an unknown user, and shows no password', async () => {
    const wrong = as('no_such_user', 'wrong-password');
    const error = await postgresStore(wrong, { table, timeout: 20 }).catch((error: Error) => error);
    expect(error).toMatchObject({ code: 'store-denied' });
    expect(inspect(error, { depth: 9, showHidden: true })).not.toContain('wrong-password');
    const right = await postgresStore(as('valise', 'right-password'), { table });
    await right.get('a');
    expect(inspect(right, { depth: 9, showHidden: true })).not.toContain('right-password');
    await right.close();
  });

  it('The PostgreSQL store fails a call that finds no free connection in time, and releases a connection that comes too late', async () => {
    const small = new pg.Pool({ connectionString: url, max: 1 });
    const other = await postgresStore(small, { table, timeout: 0.3 });
    const held = await small.connect();
    await expect(other.get('a')).rejects.toMatchObject({ code: 'store-unavailable' });
    held.release();
    expect(await other.get('a')).toBeUndefined();
    await other.close();
    await small.end();
  });
});

describe('the PostgreSQL store with invalid arguments', () => {
  it('The PostgreSQL store refuses an invalid URL without repeating it', async () => {
    for (const bad of ['postgres://u:secret@host:99999/db', 'postgres://u:%zzsecret@host/db', 'secret']) {
      const error = await postgresStore(bad).catch((error: Error) => error);
      expect(error).toMatchObject({ code: 'store-invalid' });
      expect(inspect(error)).not.toContain('secret');
    }
  });

  it('The PostgreSQL store says what to install if pg is missing', async () => {
    const outcome = await withoutPackages(
      'store/postgres/store.ts',
      'postgresStore',
      'postgres://127.0.0.1:1/x',
    );
    expect(outcome).toMatchObject({ code: 'missing-package' });
    expect(outcome.message).toContain('npm install pg');
  });
});
