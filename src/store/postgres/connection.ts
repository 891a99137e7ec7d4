import { setTimeout as pause } from 'node:timers/promises';
import { ValiseError } from '../../core/errors.ts';
import { withTimeout } from '../kit/clock.ts';
import { loadPg } from '../packages.ts';
import {
  attempts,
  badUrl,
  codeOf,
  notDone,
  parseRemoteUrl,
  type RemoteFailure,
  remoteError,
  timeoutError,
} from '../remote.ts';

/** A statement. The server prepares a named one once per connection. */
export interface Statement {
  readonly name?: string;
  readonly text: string;
}

/** A statement with its values, as `pg` accepts it. */
export interface Query {
  name?: string | undefined;
  text: string;
  values: unknown[];
  rowMode: 'array';
}

/** The result of a statement: its rows, each as an array of columns. */
export interface Rows {
  readonly rows: readonly (readonly unknown[])[];
  readonly rowCount: number | null;
}

/** The result of a statement, and whether it may have run before without its reply arriving. */
export interface Outcome extends Rows {
  readonly mayHaveRunBefore?: boolean;
}

/** A client checked out of a pool of `pg`. */
export interface PostgresClient {
  /** The server process that was reported to `pg` when it connected. */
  readonly processID?: number | null;
  query(statement: Query): Promise<Rows>;
  release(destroy?: boolean): void;
  on(event: 'error', listener: (error: Error) => void): unknown;
  on(event: 'end', listener: () => void): unknown;
  on(event: 'notification', listener: (message: PostgresNotification) => void): unknown;
}

/** A notification received through LISTEN. */
export interface PostgresNotification {
  readonly channel: string;
  readonly payload?: string | undefined;
}

/** Your own pool of `pg` that Valise uses. You remain responsible for ending it. */
export interface PostgresPool {
  connect(): Promise<PostgresClient>;
  on(event: 'error', listener: (error: Error) => void): unknown;
  off(event: 'error', listener: (error: Error) => void): unknown;
}

/** Options of a connection. */
export interface ConnectionSettings {
  /** How long a call waits for a response, in milliseconds. */
  readonly timeout: number;
  /** The maximum number of connections of a pool that Valise creates. */
  readonly connections: number;
  /** Options for the pool of `pg`. They override those that Valise sets. */
  readonly pool?: Readonly<Record<string, unknown>> | undefined;
}

/** A pool whose calls always time out and fail with typed errors. */
export class PostgresConnection {
  readonly timeout: number;
  readonly #pool: PostgresPool;
  readonly #own: OwnPool | undefined;
  readonly #server: string;
  readonly #seen = new WeakSet<PostgresClient>();
  /** Whether statements are sent with their names. A pooler that swaps connections does not keep prepared statements. */
  #isPreparing = true;

  private constructor(pool: PostgresPool, own: OwnPool | undefined, server: string, timeout: number) {
    this.#pool = pool;
    this.#own = own;
    this.#server = server;
    this.timeout = timeout;
    // A pool reports connections that were lost while idle. Without a listener, the process would crash.
    pool.on('error', ignore);
  }

  /** Creates a pool for a URL, or uses the given one. */
  static async open(
    source: string | PostgresPool,
    { timeout, connections, pool: given }: ConnectionSettings,
  ): Promise<PostgresConnection> {
    if (typeof source !== 'string') return new PostgresConnection(source, undefined, 'PostgreSQL', timeout);
    const { urls, shown, isWritable, isPreparing } = parsePostgresUrl(source);
    const { default: pg } = await loadPg();
    const create = (connectionString: string): OwnPool =>
      new pg.Pool({
        connectionString,
        max: connections,
        connectionTimeoutMillis: timeout,
        query_timeout: timeout,
        keepAlive: true,
        application_name: 'valise',
        ...given,
      });
    const [first = '', ...others] = urls;
    const pool = others.length === 0 && !isWritable ? create(first) : new HostPool(urls, create, isWritable);
    const connection = new PostgresConnection(pool, pool, shown, timeout);
    connection.#isPreparing = isPreparing;
    return connection;
  }

  /** Sends statements without their names from now on. */
  prepareNothing(): void {
    this.#isPreparing = false;
  }

  /** Runs one statement. A `repeatable` one has the same effect if it runs twice, and is run again after a lost reply. */
  run({ name, text }: Statement, values: unknown[], repeatable = false): Promise<Outcome> {
    const retries = {
      timeout: this.timeout,
      repeatable,
      failureOf: (error: unknown) => this.#failureOf(error),
      errorOf: (failure: RemoteFailure, error: unknown) => remoteError(this.#server, failure, error),
    };
    return attempts(retries, async (deadline, mayHaveRunBefore) => {
      const query: Query = { name: this.#isPreparing ? name : undefined, text, values, rowMode: 'array' };
      const rows = await (this.#own ? this.#own.query(query) : this.#onClient(query, deadline));
      return mayHaveRunBefore ? { rows: rows.rows, rowCount: rows.rowCount, mayHaveRunBefore } : rows;
    });
  }

  /** Like `failureOf`. A name that is prepared elsewhere or not at all shows a pooler: statements then go without names. */
  #failureOf(error: unknown): RemoteFailure {
    if (!/^(42P05|26000)$/.test(codeOf(error) ?? '')) return failureOf(error);
    this.prepareNothing();
    return notDone('store-unavailable');
  }

  /** Runs a statement without values on a client that was checked out of the pool. */
  async ask(client: PostgresClient, text: string): Promise<Rows> {
    try {
      const query: Query = { name: undefined, text, values: [], rowMode: 'array' };
      return await this.#withinTime(client.query(query), performance.now() + this.timeout);
    } catch (error) {
      throw error instanceof ValiseError ? error : remoteError(this.#server, failureOf(error), error);
    }
  }

  /** Whether a pooler that swaps connections, such as PgBouncer in transaction mode, is in front of the server. */
  async isPooled(client: PostgresClient): Promise<boolean> {
    if (typeof client.processID !== 'number') return false;
    const { rows } = await this.ask(client, 'SELECT pg_backend_pid()');
    return rows[0]?.[0] !== client.processID;
  }

  /** Checks out a client from the pool, waiting until one is available. `release` returns it. */
  async checkout(deadline: number = performance.now() + this.timeout): Promise<PostgresClient> {
    for (let round = 1; ; round++) {
      let connecting: Promise<PostgresClient> | undefined;
      let isLate = false;
      try {
        connecting = this.#pool.connect();
        const client = await withTimeout(connecting, deadline - performance.now(), () => {
          isLate = true;
          throw timeoutError(this.#server, this.timeout, 'not-done');
        });
        if (!this.#seen.has(client)) {
          this.#seen.add(client);
          // The statement fails too. Without a listener, the process would crash.
          client.on('error', ignore);
        }
        return client;
      } catch (error) {
        if (isLate) {
          connecting?.then((client) => client.release(), ignore);
          throw error;
        }
        const failure: RemoteFailure = { ...failureOf(error), outcome: 'not-done' };
        const wait = Math.min(20 * 2 ** round, 500);
        if (failure.code !== 'store-unavailable' || performance.now() + wait > deadline)
          throw remoteError(this.#server, failure, error);
        await pause(wait);
      }
    }
  }

  /**
   * Runs a statement on a checked-out client. On the caller's pool, nothing may still run after it was reported as
   * failed, so the statement does not queue there.
   */
  async #onClient(query: Query, deadline: number): Promise<Rows> {
    const client = await this.checkout(deadline);
    try {
      const rows = await this.#withinTime(client.query(query), deadline);
      client.release();
      return rows;
    } catch (error) {
      // The connection is in an unknown state, so it is not reused.
      client.release(true);
      throw error;
    }
  }

  #withinTime<T>(work: Promise<T>, deadline: number): Promise<T> {
    return withTimeout(work, deadline - performance.now(), () => {
      throw timeoutError(this.#server, this.timeout, 'unknown');
    });
  }

  /** Ends a pool that Valise created. */
  async close(): Promise<void> {
    // The pool may still report connections that are lost while it ends.
    if (this.#own) await this.#own.end();
    else this.#pool.off('error', ignore);
  }
}

/** A pool that Valise created. It enforces timeouts itself, and drops every connection on which something failed. */
interface OwnPool extends PostgresPool {
  query(query: Query): Promise<Rows>;
  end(): Promise<void>;
}

/**
 * A pool on the first of several hosts that is reachable and, if required, accepts writes. After a failover, it moves
 * to the next.
 */
class HostPool implements OwnPool {
  readonly #urls: readonly string[];
  readonly #create: (url: string) => OwnPool;
  readonly #isWritable: boolean;
  #current: Promise<OwnPool> | undefined;
  #ended = false;

  constructor(urls: readonly string[], create: (url: string) => OwnPool, isWritable: boolean) {
    this.#urls = urls;
    this.#create = create;
    this.#isWritable = isWritable;
  }

  query(query: Query): Promise<Rows> {
    return this.#on((pool) => pool.query(query));
  }

  connect(): Promise<PostgresClient> {
    return this.#on((pool) => pool.connect());
  }

  async end(): Promise<void> {
    this.#ended = true;
    await (await this.#current?.catch(() => undefined))?.end();
  }

  on(): void {}

  off(): void {}

  async #on<T>(work: (pool: OwnPool) => Promise<T>): Promise<T> {
    const current = (this.#current ??= this.#choose());
    try {
      return await work(await current);
    } catch (error) {
      const { code } = failureOf(error);
      if (code === 'store-unavailable' || code === 'store-read-only') this.#leave(current);
      // A demoted primary has not run the statement, so it is retried on the host that is chosen next.
      throw code === 'store-read-only' && !this.#ended
        ? Object.assign(new Error('the host does not take writes'), { code: 'ECONNREFUSED' })
        : error;
    }
  }

  #leave(pool: Promise<OwnPool>): void {
    if (this.#current === pool) this.#current = undefined;
    pool.then((left) => left.end()).catch(ignore);
  }

  async #choose(): Promise<OwnPool> {
    let failure: unknown = Object.assign(new Error('no host takes writes'), { code: 'ECONNREFUSED' });
    for (const url of this.#urls) {
      const pool = this.#create(url);
      pool.on('error', ignore);
      try {
        const query: Query = { text: 'SELECT pg_is_in_recovery()', values: [], rowMode: 'array' };
        const { rows } = await pool.query(query);
        if (!this.#isWritable || rows[0]?.[0] === false) return pool;
      } catch (error) {
        failure = error;
        if (failureOf(error).code === 'store-denied') {
          await pool.end();
          throw error;
        }
      }
      await pool.end();
    }
    throw failure;
  }
}

/** Returns one URL per host, because `pg` accepts only one host, and the libpq parameters that `pg` does not support. */
function parsePostgresUrl(url: string): {
  readonly urls: readonly string[];
  readonly shown: string;
  readonly isWritable: boolean;
  readonly isPreparing: boolean;
} {
  const { scheme, hosts, path, query, shown, username, password } = parseRemoteUrl('PostgreSQL', url);
  if (!/^postgres(ql)?$/.test(scheme)) throw badUrl('PostgreSQL');
  const target = query.get('target_session_attrs') ?? (hosts.length > 1 ? 'read-write' : 'any');
  if (!['any', 'read-write', 'primary'].includes(target))
    throw badUrl('PostgreSQL', 'target_session_attrs is any, read-write or primary in a URL of PostgreSQL.');
  const isPreparing = query.get('prepare') !== 'false';
  query.delete('target_session_attrs');
  query.delete('prepare');
  const credentials = username === '' && password === '' ? '' : `${encode(username)}:${encode(password)}@`;
  const rest = `/${path}${query.size > 0 ? `?${query}` : ''}`;
  return {
    urls: hosts.map(({ host, port = 5432 }) => {
      const name = host.includes(':') ? `[${host}]` : host;
      return `postgres://${credentials}${name}:${port}${rest}`;
    }),
    shown,
    isWritable: target !== 'any',
    isPreparing,
  };
}

const encode = encodeURIComponent;

function ignore(): void {}

const FAILURES: readonly (readonly [RegExp, RemoteFailure])[] = [
  [/^(28...|42501)$/, notDone('store-denied')],
  [/^25006$/, notDone('store-read-only')],
  [/^(53100|53200)$/, notDone('store-full')],
  // Serialization failures, deadlocks, locks and cancelled statements; too many connections; server starting up.
  [/^(40...|55P03|57014|53300|57P03)$/, notDone('store-unavailable')],
  [/^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN)$/, notDone('store-unavailable')],
  [/^(08...|57P0.)$/, { code: 'store-unavailable', outcome: 'unknown' }],
  [/^[0-9A-Z]{5}$/, notDone('store-failed')],
];

/** Maps an error of `pg` to a failure: an SQLSTATE is the server's response; anything else happened in transit. */
function failureOf(error: unknown): RemoteFailure {
  const code = codeOf(error) ?? '';
  const known = FAILURES.find(([pattern]) => pattern.test(code));
  if (known) return known[1];
  const isConnecting = (error as { syscall?: unknown } | null)?.syscall === 'connect';
  return { code: 'store-unavailable', outcome: isConnecting ? 'not-done' : 'unknown' };
}
