import type { ValiseError } from '../../core/errors.ts';
import { withTimeout } from '../kit/clock.ts';
import { loadIoredis } from '../packages.ts';
import {
  attempts,
  badUrl,
  escapeGlob,
  notDone,
  parseRemoteUrl,
  type RemoteFailure,
  redisFailureOf,
  remoteError,
  timeoutError,
} from '../remote.ts';

/** One server of a Cluster. */
interface RedisNode {
  readonly options: { readonly host?: string | undefined; readonly port?: number | undefined };
  call: IoredisClient['call'];
}

/** A client created by ioredis or iovalkey, for one server, for Sentinel or for a Cluster. */
export interface IoredisClient {
  readonly status: string;
  readonly options?: { readonly keyPrefix?: string | undefined };
  readonly isCluster?: boolean;
  /** On a Cluster: the nodes of each slot, the primary first, as `host:port`; and a client for each node. */
  readonly slots?: readonly (readonly string[])[];
  nodes?(role: 'master'): RedisNode[];
  /** The socket, on a client for one server. */
  readonly stream?: { destroy(error: Error): unknown; cork(): void; uncork(): void };
  call(command: string, ...args: string[]): Promise<unknown>;
  connect(): Promise<unknown>;
  disconnect(reconnect?: boolean): void;
  duplicate(...options: unknown[]): IoredisClient;
  subscribe(channel: string): Promise<unknown>;
  unsubscribe(channel: string): Promise<unknown>;
  on(event: 'message', listener: (channel: string, message: string) => void): unknown;
  on(event: 'error', listener: (error: Error) => void): unknown;
  on(event: 'ready' | 'end' | 'close', listener: () => void): unknown;
  off(event: 'ready' | 'end' | 'error' | 'close', listener: (error: Error) => void): unknown;
}

/** A client that sends one command and returns its reply. */
export interface CommandClient {
  sendCommand(args: string[]): Promise<unknown>;
}

/** A connected client created by the package `redis` (or `@redis/client`), for one server. */
export interface NodeRedisClient extends CommandClient {
  connect(): Promise<unknown>;
  destroy(): void;
  duplicate(): NodeRedisClient;
  subscribe(channel: string, listener: (message: string) => void): Promise<unknown>;
  unsubscribe(channel: string): Promise<unknown>;
  on(event: 'error', listener: (error: Error) => void): unknown;
}

/** Your own client that Valise uses. You remain responsible for closing it. */
export type RedisClient = IoredisClient | NodeRedisClient;

/** Whether the client was created by ioredis, or by a library with the same interface. */
export function isIoredis(client: IoredisClient | CommandClient): client is IoredisClient {
  return 'call' in client;
}

/** A Lua script, which Redis runs atomically. */
export interface Script {
  readonly lua: string;
  readonly sha: string;
}

/** Options of a connection. */
export interface ConnectionSettings {
  /** How long a call waits for a response, in milliseconds. */
  readonly timeout: number;
  /** Options for ioredis. They override those that Valise sets. */
  readonly client?: Readonly<Record<string, unknown>> | undefined;
}

/** A Redis client whose calls always time out and fail with typed errors. */
export class RedisConnection {
  readonly client: IoredisClient | CommandClient;
  readonly timeout: number;
  readonly #isOwn: boolean;
  readonly #server: string;
  #becomingReady: Promise<void> | undefined;
  #lastError: Error | undefined;
  #losses = 0;
  #isCorked = false;
  readonly #lost = (): void => void this.#losses++;

  private constructor(
    client: IoredisClient | CommandClient,
    isOwn: boolean,
    server: string,
    timeout: number,
  ) {
    this.client = client;
    this.timeout = timeout;
    this.#isOwn = isOwn;
    this.#server = server;
    if (!isIoredis(client)) return;
    client.on('close', this.#lost);
    // Without a listener, ioredis writes errors to the console.
    if (isOwn)
      client.on('error', (error) => {
        this.#lastError = error;
        if (isWrongDatabase(error)) client.stream?.destroy(error);
      });
  }

  /** Connects to a URL, or uses the caller's client. */
  static async open(
    source: string | IoredisClient | CommandClient,
    { timeout, client }: ConnectionSettings,
  ): Promise<RedisConnection> {
    if (typeof source !== 'string') return RedisConnection.on(source, timeout);
    const address = parseRedisUrl(source);
    return RedisConnection.#ready(await createClient(address, timeout, client), address.shown, timeout);
  }

  /** Uses the caller's client. `server` is its name in messages. */
  static on(client: IoredisClient | CommandClient, timeout: number, server = 'Redis'): RedisConnection {
    return new RedisConnection(client, false, server, timeout);
  }

  /** Opens another connection to the same servers, for a subscriber. */
  again(): Promise<RedisConnection> {
    if (!isIoredis(this.client)) throw new TypeError('Only a client of ioredis can be duplicated here.');
    const own = behavior(this.timeout);
    const options = this.client.isCluster ? [[], clusterBehavior(own)] : [own];
    return RedisConnection.#ready(this.client.duplicate(...options), this.#server, this.timeout);
  }

  static async #ready(client: IoredisClient, server: string, timeout: number): Promise<RedisConnection> {
    const connection = new RedisConnection(client, true, server, timeout);
    try {
      await connection.ready();
    } catch (error) {
      connection.close();
      throw error;
    }
    return connection;
  }

  /** How often the connection or a reply was lost. Commands that were in flight then may have been sent twice. */
  get losses(): number {
    return this.#losses;
  }

  /** Sends one command. A `repeatable` one has the same effect if it arrives twice, and is sent again after a lost reply. */
  command(args: readonly string[], repeatable: boolean): Promise<unknown> {
    return this.run(() => this.#send(args), repeatable);
  }

  /** Runs a script by its digest, or by its text if the server does not know it. `args` starts with the number of keys. */
  script({ lua, sha }: Script, args: readonly string[], repeatable: boolean): Promise<unknown> {
    const unknown = (error: unknown): Promise<unknown> => {
      // A Cluster wraps the error: "Too many Cluster redirections. Last error: ReplyError: NOSCRIPT …".
      if (!(error instanceof Error && /\bNOSCRIPT\b/.test(error.message))) throw error;
      return this.#send(['eval', lua, ...args]);
    };
    return this.run(() => this.#send(['evalsha', sha, ...args]).then(undefined, unknown), repeatable);
  }

  /** Runs `attempt` once the client is ready, and again after a failure if that is safe. */
  run<T>(attempt: () => Promise<T>, repeatable: boolean): Promise<T> {
    const errorOf = (failure: RemoteFailure, error: unknown) => this.#typed(failure, error);
    const late = () => {
      throw timeoutError(this.#server, this.timeout, 'unknown');
    };
    const inTime = (deadline: number) => withTimeout(attempt(), deadline - performance.now(), late);
    return attempts({ timeout: this.timeout, repeatable, failureOf: this.#failureOf, errorOf }, (deadline) =>
      isReady(this.client) ? inTime(deadline) : this.ready(deadline).then(() => inTime(deadline)),
    );
  }

  /** Maps an error, and counts a reply that was lost. */
  readonly #failureOf = (error: unknown): RemoteFailure => {
    const failure = redisFailureOf(error);
    if (failure.outcome === 'unknown') this.#losses++;
    return failure;
  };

  /** Waits until a replica has the last write of this connection to a key of `slot`. */
  async replicated(slot: number): Promise<void> {
    const { losses } = this;
    const copies = Number(await this.run(() => this.#wait(slot), false));
    if (copies > 0 && losses === this.losses) return;
    throw remoteError(
      this.#server,
      {
        code: 'store-unavailable',
        outcome: 'unknown',
        next: "Check the replicas, or open the store without durability: 'replicated'.",
      },
      `no replica confirmed a write within ${this.timeout / 1000} s`,
    );
  }

  /** Sends `WAIT`, which applies to the connection it is sent on, so in a Cluster it goes to the node that holds the slot. */
  #wait(slot: number): Promise<unknown> {
    const args = ['wait', '1', String(this.timeout)] as const;
    const nodes = this.#primaries();
    if (!nodes) return this.#send(args);
    const owner = (this.client as IoredisClient).slots?.[slot]?.[0];
    const node = nodes.find(({ options: { host, port } }) => `${host}:${port}` === owner);
    return node ? node.call(...args) : Promise.reject(new Error(`the cluster has no node for slot ${slot}`));
  }

  /** Returns the primaries of a Cluster, or undefined for a single server. */
  #primaries(): RedisNode[] | undefined {
    return isIoredis(this.client) && this.client.isCluster ? this.client.nodes?.('master') : undefined;
  }

  /**
   * Reads the next names that start with `start` and match a pattern after it, on all primaries; returns the rest of
   * each. Fails if a server was restarted or replaced, because a cursor belongs to one run of one server. May return a
   * name twice, and misses names whose slot moves meanwhile.
   */
  async scan(
    start: string,
    pattern: string,
    count: number,
    cursor?: string,
  ): Promise<{ readonly names: readonly string[]; readonly cursor?: string }> {
    // ioredis adds the prefix of your client to keys, and neither to patterns nor to what a scan returns.
    const prefix = `${(isIoredis(this.client) && this.client.options?.keyPrefix) || ''}${start}`;
    const servers = await this.run(async () => {
      const calls = this.#primaries()?.map((node) => node.call.bind(node)) ?? [(...args) => this.#send(args)];
      const ids = calls.map(async (call) => /^run_id:(\w+)/m.exec(String(await call('info', 'server')))?.[1]);
      const found = (await Promise.all(ids)).map((id = '', at) => ({ id, call: calls[at] }));
      return found.sort((one, other) => (one.id < other.id ? -1 : 1));
    }, true);
    const [id = servers[0]?.id, position = '0'] = cursor?.split(' ') ?? [];
    const at = servers.findIndex((server) => server.id === id);
    const call = servers[at]?.call;
    if (!call) {
      const failure = notDone('store-unavailable', 'Start over: entries may have been missed.');
      throw remoteError(this.#server, failure, 'a server was restarted or replaced during a scan');
    }
    const args = [
      'scan',
      position,
      'match',
      `${escapeGlob(prefix)}${pattern}`,
      'count',
      String(count),
    ] as const;
    const [next, found] = (await this.run(() => call(...args), true)) as [string, string[]];
    const names = found.map((name) => name.slice(prefix.length));
    const following = next === '0' ? servers[at + 1] && `${servers[at + 1]?.id} 0` : `${id} ${next}`;
    return following === undefined ? { names } : { names, cursor: following };
  }

  /** Resolves once the client is connected. */
  async ready(deadline: number = performance.now() + this.timeout): Promise<void> {
    const { client } = this;
    if (!isIoredis(client) || isReady(client)) return;
    try {
      await withTimeout(this.#untilReady(client), deadline - performance.now(), () => {
        // A connection that never becomes ready may be half open, so the next attempt gets a new one.
        if (this.#isOwn) client.disconnect(true);
        throw this.#lastError ?? new Error(`not ready within ${this.timeout / 1000} s`);
      });
    } catch (error) {
      throw remoteError(this.#server, { ...redisFailureOf(error), outcome: 'not-done' }, error);
    }
  }

  /** Disconnects a client that Valise created, and no other. */
  close(): void {
    if (!isIoredis(this.client)) return;
    this.client.off('close', this.#lost);
    if (this.#isOwn) this.client.disconnect();
  }

  #send(args: readonly string[]): Promise<unknown> {
    const { client } = this;
    if (!isIoredis(client)) return client.sendCommand([...args]);
    if (this.#isOwn && client.stream && !this.#isCorked) this.#cork(client.stream);
    return client.call(...(args as [string, ...string[]]));
  }

  /** Sends the commands of all calls that are waiting to run now in one system call. */
  #cork(stream: NonNullable<IoredisClient['stream']>): void {
    this.#isCorked = true;
    stream.cork();
    process.nextTick(() => {
      this.#isCorked = false;
      stream.uncork();
    });
  }

  /** All waiting calls share one promise, because each would otherwise add listeners to the client. */
  #untilReady(client: IoredisClient): Promise<void> {
    let stop = (): void => {};
    this.#becomingReady ??= new Promise<void>((resolve, reject) => {
      const ready = () => resolve();
      const end = () => reject(this.#lastError ?? new Error('the client has been closed'));
      const failed = (error: Error) => {
        this.#lastError = error;
        if (isRefusal(error)) reject(error);
      };
      stop = () => {
        client.off('ready', ready);
        client.off('end', end);
        client.off('error', failed);
      };
      client.on('ready', ready);
      client.on('end', end);
      client.on('error', failed);
      if (client.status === 'wait') client.connect().catch(() => {});
      if (client.status === 'end') end();
    }).finally(() => {
      stop();
      this.#becomingReady = undefined;
    });
    return this.#becomingReady;
  }

  /** Prefers the error of the connection over that of the command that failed because of it. */
  #typed(failure: RemoteFailure, error: unknown): ValiseError {
    const isLost = error instanceof Error && error.name === 'MaxRetriesPerRequestError';
    return remoteError(
      this.#server,
      failure,
      isLost ? (this.#lastError ?? new Error('the connection was lost')) : error,
    );
  }
}

/** The servers of a URL, and how to connect to them. */
interface RedisAddress {
  readonly kind: 'single' | 'cluster' | 'sentinel';
  readonly nodes: readonly { readonly host: string; readonly port: number }[];
  /** The name of the primary, with Sentinel. */
  readonly name: string;
  readonly options: Readonly<Record<string, unknown>>;
  /** The name of the servers in messages. */
  readonly shown: string;
}

/** The schemes: `redis`, `rediss` (TLS), either with `+cluster` or `+sentinel`; `valkey` and `valkeys` mean the same. */
const SCHEME = /^(?:redis|valkey)(s?)(?:\+(cluster|sentinel))?$/;

function parseRedisUrl(url: string): RedisAddress {
  const { scheme, username, password, hosts, path, query, shown } = parseRemoteUrl('Redis', url);
  const [isRedis, tls, kind = 'single'] = SCHEME.exec(scheme) ?? [];
  if (!isRedis || (kind === 'single' && hosts.length > 1)) throw badUrl('Redis');
  const [name = '', database = ''] = kind === 'sentinel' ? path.split('/') : ['', path];
  if (kind === 'sentinel' && name === '')
    throw badUrl(
      'Redis',
      'This URL of Redis Sentinel does not name a primary, as in redis+sentinel://HOST:26379/NAME.',
    );
  const { db = database, ...others } = Object.fromEntries(query);
  // The value is not repeated: if a password was not written as %XX, this may be part of it. ioredis would use database 0.
  if (!/^\d*$/.test(db) || (kind === 'sentinel' && path.split('/').length > 2) || query.get('db') === '')
    throw badUrl('Redis', 'This URL of Redis names a database by something other than its number.');
  return {
    kind: kind as RedisAddress['kind'],
    nodes: hosts.map(({ host, port }) => ({ host, port: port ?? (kind === 'sentinel' ? 26_379 : 6379) })),
    name,
    options: {
      ...Object.fromEntries(Object.entries(others).map(([option, value]) => [option, optionOf(value)])),
      ...(username !== '' && { username }),
      ...(password !== '' && { password }),
      ...(db !== '' && { db: Number(db) }),
      ...(tls === 's' && { tls: {} }),
    },
    shown,
  };
}

/** Parses an ioredis option from the query of a URL. */
function optionOf(text: string): string | number | boolean {
  if (text === 'true' || text === 'false') return text === 'true';
  return /^\d+$/.test(text) ? Number(text) : text;
}

function isReady(client: IoredisClient | CommandClient): boolean {
  return !isIoredis(client) || client.status === 'ready';
}

/**
 * The options of a client that Valise creates: it reconnects by itself, never resends a command unasked, and gives up a
 * silent connection.
 */
function behavior(timeout: number) {
  return {
    lazyConnect: true,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    autoResubscribe: false,
    connectTimeout: timeout,
    socketTimeout: timeout,
    maxRetriesPerRequest: 0,
    connectionName: 'valise',
    retryStrategy: (times: number): number => Math.min(20 * 2 ** Math.min(times, 6), 1000),
    // After a failover the old primary is read-only, so the name is resolved again.
    reconnectOnError: (error: Error): boolean => error.message.startsWith('READONLY'),
  };
}

function clusterBehavior(node: ReturnType<typeof behavior> & { readonly tls?: object }) {
  const { lazyConnect, enableOfflineQueue, retryStrategy, ...redisOptions } = node;
  return {
    lazyConnect,
    enableOfflineQueue,
    clusterRetryStrategy: retryStrategy,
    // Only Valise resends commands, because it knows whether that is safe.
    retryDelayOnFailover: 0,
    slotsRefreshTimeout: node.connectTimeout,
    redisOptions,
    // Certificates contain host names, not the addresses that a cluster announces.
    ...(node.tls !== undefined && {
      dnsLookup: (address: string, found: (error: null, address: string) => void) => found(null, address),
    }),
  };
}

/** Creates a client with ioredis, which is loaded only now. */
async function createClient(
  { kind, nodes, name, options }: RedisAddress,
  timeout: number,
  given: Readonly<Record<string, unknown>> = {},
): Promise<IoredisClient> {
  const { Redis, Cluster } = await loadIoredis();
  const own = { ...behavior(timeout), ...options };
  if (kind === 'cluster')
    return new Cluster([...nodes], { ...clusterBehavior(own), ...given }) as IoredisClient;
  const target = kind === 'sentinel' ? { sentinels: [...nodes], name } : nodes[0];
  return new Redis({ ...own, ...target, ...given }) as IoredisClient;
}

/** Whether the server rejected the database of the URL; ioredis would continue in database 0. */
function isWrongDatabase(error: Error & { readonly command?: { readonly name?: unknown } }): boolean {
  return error.command?.name === 'select';
}

/** Whether the server rejected this client, so that waiting does not help. */
function isRefusal(error: Error): boolean {
  const { code } = redisFailureOf(error);
  return code === 'store-denied' || (code === 'store-failed' && isWrongDatabase(error));
}
