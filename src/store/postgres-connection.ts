import { setTimeout as pause } from 'node:timers/promises';
import { ValiseError } from '../errors.ts';
import { codeOf, placeOf, remoteError, type Trouble, timeoutError, within } from './remote.ts';

/** A statement; with a name the server prepares it once for each connection. */
export interface Statement {
  readonly name?: string;
  readonly text: string;
}

/** A statement with its values, as `pg` takes it. */
export interface Query {
  name?: string | undefined;
  text: string;
  values: unknown[];
  rowMode: 'array';
}

/** What a statement brings: its rows, each as a list of columns. */
export interface Rows {
  readonly rows: readonly (readonly unknown[])[];
  readonly rowCount: number | null;
}

/** A client taken out of a pool of `pg`. */
export interface PostgresClient {
  query(statement: Query): Promise<Rows>;
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
  readonly #own: OwnPool | undefined;
  readonly #server: string;
  readonly #timeout: number;
  readonly #known = new WeakSet<PostgresClient>();

  private constructor(pool: PostgresPool, own: OwnPool | undefined, server: string, timeout: number) {
    this.#pool = pool;
    this.#own = own;
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
    if (typeof source !== 'string') return new PostgresConnection(source, undefined, 'PostgreSQL', timeout);
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
      query_timeout: timeout,
      keepAlive: true,
      application_name: 'valise',
    });
    return new PostgresConnection(pool, pool, server, timeout);
  }

  /** How long a call waits, in milliseconds. */
  get timeout(): number {
    return this.#timeout;
  }

  /** One statement on its own. What only reads is `safe` to ask again where the connection is lost in the middle. */
  async run(statement: Statement, values: unknown[], safe = false): Promise<Rows> {
    const { name, text } = statement;
    const query: Query = { name, text, values, rowMode: 'array' };
    const deadline = performance.now() + this.#timeout;
    for (let round = 1; ; round++) {
      try {
        return await (this.#own ? this.#own.query(query) : this.#onClient(query, deadline));
      } catch (error) {
        if (error instanceof ValiseError) throw error;
        const trouble = troubleOf(error);
        const again = trouble.code === 'store-unavailable' && (safe || trouble.undone);
        const wait = Math.random() * Math.min(20 * 2 ** round, 500);
        if (!again || performance.now() + wait > deadline) throw remoteError(this.#server, trouble, error);
        await pause(wait);
      }
    }
  }

  /** A statement with no values on a client that was taken out, and stays so. */
  async ask(client: PostgresClient, text: string): Promise<void> {
    try {
      const query: Query = { name: undefined, text, values: [], rowMode: 'array' };
      await this.#withinTime(client.query(query), performance.now() + this.#timeout);
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

  /** On a pool of the caller's nothing may still run once we said that it failed, so it is not left to wait there. */
  async #onClient(query: Query, deadline: number): Promise<Rows> {
    const client = await this.checkout(deadline);
    try {
      const rows = await this.#withinTime(client.query(query), deadline);
      client.release();
      return rows;
    } catch (error) {
      // Whatever state the connection is in, nobody should get it again.
      client.release(true);
      throw error;
    }
  }

  #withinTime<T>(work: Promise<T>, deadline: number): Promise<T> {
    return within(work, deadline - performance.now(), () =>
      timeoutError(this.#server, this.#timeout, { undone: false }),
    );
  }

  /** Ends the pool, where it is ours. */
  async close(): Promise<void> {
    // A pool of ours may still tell of connections that were lost while they were ended.
    if (this.#own) await this.#own.end();
    else this.#pool.off('error', ignore);
  }
}

/** A pool that Valise made. It keeps the time by itself, and lets go of every connection on which something failed. */
interface OwnPool extends PostgresPool {
  query(query: Query): Promise<Rows>;
  end(): Promise<void>;
}

function ignore(): void {}

const TROUBLES: readonly (readonly [RegExp, Trouble])[] = [
  [/^(28...|42501)$/, { code: 'store-denied', undone: true }],
  [/^25006$/, { code: 'store-read-only', undone: true }],
  [/^(53100|53200)$/, { code: 'store-full', undone: true }],
  // Serialisation failures, deadlocks, locks and cancelled statements; too many connections; starting up.
  [/^(40...|55P03|57014|53300|57P03)$/, { code: 'store-unavailable', undone: true }],
  [/^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN)$/, { code: 'store-unavailable', undone: true }],
  [/^(08...|57P0.)$/, { code: 'store-unavailable', undone: false }],
  [/^[0-9A-Z]{5}$/, { code: 'store-failed', undone: true }],
];

/** What an error of `pg` means: an SQLSTATE is the server's word, all else happened on the way. */
function troubleOf(error: unknown): Trouble {
  const code = codeOf(error) ?? '';
  const known = TROUBLES.find(([pattern]) => pattern.test(code));
  if (known) return known[1];
  const connecting = (error as { syscall?: unknown } | null)?.syscall === 'connect';
  return { code: 'store-unavailable', undone: connecting };
}
