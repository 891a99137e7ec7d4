import { createHash } from 'node:crypto';
import { ValiseError } from '../errors.ts';
import type { PostgresConnection, Statement } from './postgres-connection.ts';

/** The statements of a store on one table. */
export type Statements = Readonly<Record<keyof ReturnType<typeof textsFor>, Statement>>;

/** The statements for `table`, which may be `schema.table`; named, so that they are prepared, unless told not to. */
export function statementsFor(table: string, prepare: boolean): Statements {
  const texts = textsFor(quote(table));
  const mark = createHash('sha256').update(table).digest('hex').slice(0, 16);
  return Object.fromEntries(
    Object.entries(texts).map(([name, text]) => [
      name,
      prepare ? { name: `valise_${name}_${mark}`, text } : { text },
    ]),
  ) as Statements;
}

/** Creates the table where it is missing; any number of processes may do so at once. */
export async function createTable(connection: PostgresConnection, table: string): Promise<void> {
  const name = quote(table);
  const found = await connection.run({ text: 'SELECT to_regclass($1) IS NOT NULL' }, [name], true);
  if (found.rows[0]?.[0] === true) return;
  const index = quote(`${table.split('.').at(-1)}_expires_at`);
  // One text with no values is one transaction. IF NOT EXISTS alone fails where two do it at the same moment.
  const text = `
    SELECT pg_advisory_xact_lock(hashtext('valise'), hashtext('${table}'));
    CREATE TABLE IF NOT EXISTS ${name} (
      kind smallint NOT NULL,
      key text COLLATE "C" NOT NULL,
      value text NOT NULL,
      version text NOT NULL,
      expires_at timestamptz,
      PRIMARY KEY (kind, key)
    );
    CREATE INDEX IF NOT EXISTS ${index} ON ${name} (expires_at) WHERE expires_at IS NOT NULL;`;
  await connection.run({ text }, [], true);
}

/*
 * Rows of kind 0 are entries, rows of kind 1 are leases: `version` says who holds one, `value` is its fence.
 * Time is the server's. Conditions of writes look at the clock after a wait for the row, not at the start of it.
 */
function textsFor(t: string) {
  const lives = 'expires_at IS NULL OR expires_at > statement_timestamp()';
  const livesNow = `${t}.expires_at IS NULL OR ${t}.expires_at > clock_timestamp()`;
  const end = (value: string) => `clock_timestamp() + ${value}::float8 * interval '1 millisecond'`;
  const microseconds = 'floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint';
  const insert = `INSERT INTO ${t} (kind, key, value, version, expires_at) VALUES (0, $1, $2, $3, ${end('$4')})
    ON CONFLICT (kind, key) DO UPDATE SET value = excluded.value, version = excluded.version, expires_at = excluded.expires_at`;
  const page = `SELECT key FROM ${t} WHERE kind = 0 AND (${lives}) AND key >= $1 AND key > $2`;
  return {
    // One text, in the shape of parseEntry: every further column costs as much again as a simple row.
    get: `SELECT concat_ws(' ', version, coalesce(floor(extract(epoch FROM expires_at) * 1000)::bigint, 0), value) FROM ${t}
      WHERE kind = 0 AND key = $1 AND (${lives})`,
    put: insert,
    putAbsent: `${insert} WHERE NOT (${livesNow})`,
    putVersion: `UPDATE ${t} SET value = $2, version = $3, expires_at = ${end('$4')}
      WHERE kind = 0 AND key = $1 AND version = $5 AND (${livesNow})`,
    remove: `DELETE FROM ${t} WHERE kind = 0 AND key = $1 RETURNING ${livesNow}`,
    removeVersion: `DELETE FROM ${t} WHERE kind = 0 AND key = $1 AND version = $2 RETURNING ${livesNow}`,
    list: `${page} AND key < $4 ORDER BY key LIMIT $3`,
    listAll: `${page} ORDER BY key LIMIT $3`,
    // The fence is the time or one more than the last, so it also rises where rows were lost.
    lease: `INSERT INTO ${t} (kind, key, value, version, expires_at) VALUES (1, $1, ${microseconds}, $2, ${end('$3')})
      ON CONFLICT (kind, key) DO UPDATE SET value = greatest(${t}.value::bigint + 1, ${microseconds}),
        version = excluded.version, expires_at = excluded.expires_at
      WHERE NOT (${livesNow}) RETURNING value`,
    renew: `UPDATE ${t} SET expires_at = ${end('$3')} WHERE kind = 1 AND key = $1 AND version = $2 AND (${livesNow})`,
    // The row stays for a while: the fence of the next holder is counted on from it.
    release: `UPDATE ${t} SET expires_at = least(expires_at, clock_timestamp()) WHERE kind = 1 AND key = $1 AND version = $2`,
    sweep: `DELETE FROM ${t} WHERE ctid = ANY (ARRAY(SELECT ctid FROM ${t}
      WHERE expires_at < statement_timestamp() - interval '10 minutes' LIMIT 500 FOR UPDATE SKIP LOCKED))`,
  };
}

function quote(table: string): string {
  if (!/^([a-z_][a-z0-9_]{0,62}\.)?[a-z_][a-z0-9_]{0,50}$/.test(table.replace(/_expires_at$/, ''))) {
    throw new ValiseError('store-bad-table', `${JSON.stringify(table)} cannot be the name of a table.`, {
      next: 'Use small letters, digits and _, at most 51, with a schema and a dot before it where wanted.',
    });
  }
  return table
    .split('.')
    .map((part) => `"${part}"`)
    .join('.');
}
