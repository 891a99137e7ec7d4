import { setTimeout as pause } from 'node:timers/promises';
import { ValiseError } from '../errors.ts';
import { codeOf, placeOf, remoteError, type Trouble, timeoutError, within } from './remote.ts';

/** A statement; with a name the server prepares it once for each connection. */
export interface Statement {
  readonly name?: string;
  readonly text: string;
}

/** What a statement brings: its rows, each as a list of columns. */
export interface Rows {
  readonly rows: readonly (readonly unknown[])[];
  readonly rowCount: number | null;
}

/** A client taken out of a pool of `pg`. */
export interface PostgresClient {
  query(statement: { name?: string; text: string; values?: unknown[]; rowMode: 'array' }): Promise<Rows>;
  release(destroy?: boolean): void;
  on(event: 'error', listener: (error: Error) => void): unknown;
  on(event: 'end', listener: () => void): unknown;
  on(event: 'notification', listener: (message: PostgresNotification) => void): unknown;
}

/** What arrives by LISTEN. */
export interface PostgresNotification {
  readonly channel: string;
  readonly payload?: string | undefined;
}

/** A pool of `pg` of yours that Valise works through; it stays yours to end. */
export interface PostgresPool {
  connect(): Promise<PostgresClient>;
  on(event: 'error', listener: (error: Error) => void): unknown;
  off(event: 'error', listener: (error: Error) => void): unknown;
}

/** A pool with manners: no call waits for ever, and every failure is a typed error. */
export class PostgresConnection {
  readonly #pool: PostgresPool;
  readonly #end: () => Promise<void>;
  readonly #server: string;
  readonly #timeout: number;
  readonly #known = new WeakSet<PostgresClient>();

  private constructor(pool: PostgresPool, end: () => Promise<void>, server: string, timeout: number) {
    this.#pool = pool;
    this.#end = end;
    this.#server = server;
    this.#timeout = timeout;
    // A pool tells of connections that were lost while nobody used them; without a listener the process would end.
    pool.on('error', ignore);
  }

  /** Makes a pool for a URL, or takes one. `timeout` is in milliseconds. */
  static async open(
    source: string | PostgresPool,
    timeout: number,
    max: number,
  ): Promise<PostgresConnection> {
    if (typeof source !== 'string')
      return new PostgresConnection(source, async () => {}, 'PostgreSQL', timeout);
    const server = placeOf('PostgreSQL', source);
    const { default: pg } = await import('pg').catch((cause: unknown) => {
      throw new ValiseError('store-driver-missing', 'A PostgreSQL store needs the package pg.', {
        next: 'Run `npm install pg`, or hand over a pool of your own.',
        cause,
      });
    });
    const pool = new pg.Pool({
      connectionString: source,
      max,
      connectionTimeoutMillis: timeout,
      keepAlive: true,
      application_name: 'valise',
    });
    return new PostgresConnection(pool, () => pool.end(), server, timeout);
  }

  /** One statement on its own. What only reads is `safe` to ask again where the connection is lost in the middle. */
  async run(statement: Statement, values: unknown[], safe = false): Promise<Rows> {
    const deadline = performance.now() + this.#timeout;
    for (let round = 1; ; round++) {
      const client = await this.checkout(deadline);
      try {
        const rows = await this.#query(client, statement, values, deadline);
        client.release();
        return rows;
      } catch (error) {
        // Whatever state the connection is in, nobody should get it again.
        client.release(true);
        if (error instanceof ValiseError) throw error;
        const trouble = troubleOf(error);
        const again = trouble.code === 'store-unavailable' && (safe || trouble.undone);
        if (!again || performance.now() >= deadline) throw remoteError(this.#server, trouble, error);
        await pause(Math.random() * Math.min(10 * round, 100));
      }
    }
  }

  /** A statement on a client that was taken out, and stays so. */
  async ask(client: PostgresClient, statement: Statement): Promise<void> {
    try {
      await this.#query(client, statement, [], performance.now() + this.#timeout);
    } catch (error) {
      throw error instanceof ValiseError ? error : remoteError(this.#server, troubleOf(error), error);
    }
  }

  /** A client out of the pool, once there is one; `release` gives it back. */
  async checkout(deadline: number = performance.now() + this.#timeout): Promise<PostgresClient> {
    for (let round = 1; ; round++) {
      let connecting: Promise<PostgresClient> | undefined;
      let late = false;
      try {
        connecting = this.#pool.connect();
        const client = await within(connecting, deadline - performance.now(), () => {
          late = true;
          return timeoutError(this.#server, this.#timeout, { undone: true });
        });
        if (!this.#known.has(client)) {
          this.#known.add(client);
          // What fails fails the statement under way too; without a listener the process would end.
          client.on('error', ignore);
        }
        return client;
      } catch (error) {
        if (late) {
          connecting?.then((client) => client.release(), ignore);
          throw error;
        }
        const trouble = { ...troubleOf(error), undone: true };
        const wait = Math.min(20 * 2 ** round, 500);
        if (trouble.code !== 'store-unavailable' || performance.now() + wait > deadline) {
          throw remoteError(this.#server, trouble, error);
        }
        await pause(wait);
      }
    }
  }

  #query(
    client: PostgresClient,
    { name, text }: Statement,
    values: unknown[],
    deadline: number,
  ): Promise<Rows> {
    const query = { ...(name !== undefined && { name }), text, values, rowMode: 'array' as const };
    return within(client.query(query), deadline - performance.now(), () =>
      timeoutError(this.#server, this.#timeout, { undone: false }),
    );
  }

  /** Ends the pool, where it is ours. */
  async close(): Promise<void> {
    await this.#end();
    this.#pool.off('error', ignore);
  }
}

function ignore(): void {}

const TROUBLES: readonly (readonly [RegExp, Trouble])[] = [
  [/^(28...|42501)$/, { code: 'store-denied', undone: true }],
  [/^25006$/, { code: 'store-read-only', undone: true }],
  [/^(53100|53200)$/, { code: 'store-full', undone: true }],
  // Serialisation failures, deadlocks, locks and cancelled statements; too many connections; starting up.
  [/^(40...|55P03|57014|53300|57P03)$/, { code: 'store-unavailable', undone: true }],
  [/^(08...|57P0.)$/, { code: 'store-unavailable', undone: false }],
  [/^[0-9A-Z]{5}$/, { code: 'store-failed', undone: true }],
];

/** What an error of `pg` means: an SQLSTATE is the server's word, all else happened on the way. */
function troubleOf(error: unknown): Trouble {
  const code = codeOf(error) ?? '';
  const known = TROUBLES.find(([pattern]) => pattern.test(code));
  return known ? known[1] : { code: 'store-unavailable', undone: false };
}
