import { setTimeout as pause } from 'node:timers/promises';
import { ValiseError } from '../errors.ts';
import {
  createClient,
  type IoredisClient,
  isIoredis,
  ownBehaviour,
  type RedisClient,
} from './redis-client.ts';
import { isReady, lastErrors, untilReady } from './redis-ready.ts';
import type { Script } from './redis-scripts.ts';
import { isWrongDatabase, troubleOf } from './redis-trouble.ts';
import { Watch } from './redis-watch.ts';
import { placeOf, remoteError, timeoutError, within } from './remote.ts';

/** A client with manners: no call waits for ever, and every failure is a typed error. */
export class RedisConnection {
  readonly #client: RedisClient;
  readonly #owned: boolean;
  /** Keeps the time of a client of our own; others get a timer for each call. */
  readonly #watch: Watch | undefined;
  readonly #server: string;
  readonly #timeout: number;
  #corked: IoredisClient['stream'];

  private constructor(client: RedisClient, owned: boolean, server: string, timeout: number) {
    this.#client = client;
    this.#owned = owned;
    // A Cluster has no one connection that could be given up.
    if (owned && isIoredis(client) && client.isCluster !== true)
      this.#watch = new Watch(timeout, () =>
        client.stream?.destroy(new Error(`no answer within ${timeout / 1000} s`)),
      );
    this.#server = server;
    this.#timeout = timeout;
  }

  /** Connects, or takes a client that is connected already. `timeout` is in milliseconds. */
  static async open(source: string | RedisClient, timeout: number): Promise<RedisConnection> {
    if (typeof source !== 'string') return new RedisConnection(source, false, 'Redis', timeout);
    const server = placeOf('Redis', source);
    return RedisConnection.#own(await createClient(source, timeout), server, timeout);
  }

  /** Another connection to the same server, as a listener for messages needs it. */
  async again(): Promise<RedisConnection> {
    if (!isIoredis(this.#client)) throw new TypeError('only a client of ioredis is duplicated here');
    return RedisConnection.#own(
      this.#client.duplicate(ownBehaviour(this.#timeout)),
      this.#server,
      this.#timeout,
    );
  }

  static async #own(client: IoredisClient, server: string, timeout: number): Promise<RedisConnection> {
    // Without a listener ioredis writes to the console; here it reaches the calls that fail for it.
    client.on('error', (error) => {
      lastErrors.set(client, error);
      if (isWrongDatabase(error)) client.stream?.destroy(error);
    });
    const connection = new RedisConnection(client, true, server, timeout);
    try {
      await connection.ready();
    } catch (error) {
      connection.close();
      throw error;
    }
    return connection;
  }

  /** How long a call waits, in milliseconds. */
  get timeout(): number {
    return this.#timeout;
  }

  get client(): RedisClient {
    return this.#client;
  }

  /** One command. What only reads is `safe` to ask again where the connection is lost in the middle. */
  command(safe: boolean, ...args: string[]): Promise<unknown> {
    return this.patiently(() => this.#send(args), safe);
  }

  /** A script, by its digest; its text is sent where the server does not know it. `args` starts with the number of keys. */
  script({ lua, sha }: Script, args: readonly string[], safe = false): Promise<unknown> {
    const unknown = () => this.#send(['eval', lua, ...args]);
    return this.patiently(() => this.#send(['evalsha', sha, ...args]), safe, unknown);
  }

  /** Resolves once the server answers. */
  async ready(deadline: number = performance.now() + this.#timeout): Promise<void> {
    const client = this.#client;
    if (!isIoredis(client) || isReady(client)) return;
    try {
      await within(untilReady(client), deadline - performance.now(), () => {
        // A connection that never gets ready may hang half open: the next try gets a new one.
        if (this.#owned) client.disconnect(true);
        return lastErrors.get(client) ?? new Error(`not ready within ${this.#timeout / 1000} s`);
      });
    } catch (error) {
      throw remoteError(this.#server, { ...troubleOf(error), undone: true }, error);
    }
  }

  /** Ends the client, where it is ours. */
  close(): void {
    this.#watch?.close();
    if (this.#owned) (this.#client as IoredisClient).disconnect();
  }

  #send(args: string[]): Promise<unknown> {
    const client = this.#client;
    if (!isIoredis(client)) return client.sendCommand(args);
    if (this.#watch?.isIdle === false && this.#corked === undefined) this.#cork(client.stream);
    return client.call(...(args as [string, ...string[]]));
  }

  /**
   * Lets all commands of one turn of the event loop leave in one write: nearly half of what a command costs is its
   * write. One that nothing is under way with leaves at once.
   */
  #cork(stream: IoredisClient['stream']): void {
    if (!stream) return;
    this.#corked = stream;
    stream.cork();
    process.nextTick(() => {
      this.#corked = undefined;
      stream.uncork();
    });
  }

  /** Does what `attempt` does, once the client is ready and within the time given; or `unknown`, where the server lacks the script. */
  patiently<T>(attempt: () => Promise<T>, safe: boolean, unknown?: () => Promise<T>): Promise<T> {
    const deadline = performance.now() + this.#timeout;
    // Nearly always the first try is the last: it costs one promise.
    if (this.#watch && isReady(this.#client))
      return this.#watch.follow(attempt, (error) =>
        this.#persist({ attempt, unknown, safe, deadline }, { error }),
      );
    return this.#persist({ attempt, unknown, safe, deadline }, undefined);
  }

  async #persist<T>(
    { attempt, unknown, safe, deadline }: Persistence<T>,
    first: { readonly error: unknown } | undefined,
  ): Promise<T> {
    let send = attempt;
    let failed = first;
    for (let round = 1; ; round++) {
      if (failed && unknown && isUnknownScript(failed.error)) send = unknown;
      else if (failed) {
        this.#judge(failed.error, safe, deadline);
        await pause(Math.min(5 * round, 100));
      }
      if (!isReady(this.#client)) await this.ready(deadline);
      try {
        return await (this.#watch
          ? this.#watch.follow(send, rethrow)
          : this.#withinTime(send(), deadline, safe));
      } catch (error) {
        failed = { error };
      }
    }
  }

  /** Throws where it is of no use, or not safe, to ask again. */
  #judge(error: unknown, safe: boolean, deadline: number): void {
    if (error instanceof ValiseError) throw error;
    const trouble = troubleOf(error);
    const again = trouble.code === 'store-unavailable' && (safe || trouble.undone);
    if (again && performance.now() < deadline) return;
    throw remoteError(
      this.#server,
      trouble,
      trouble.code === 'store-unavailable' ? this.#reason(error) : error,
    );
  }

  #withinTime<T>(work: Promise<T>, deadline: number, safe: boolean): Promise<T> {
    return within(work, deadline - performance.now(), () =>
      timeoutError(this.#server, this.#timeout, { undone: safe }),
    );
  }

  /** What happened to the connection says more than that a command did not get through. */
  #reason(error: unknown): unknown {
    const lost = error instanceof Error && error.name === 'MaxRetriesPerRequestError';
    if (!lost || !isIoredis(this.#client)) return error;
    return lastErrors.get(this.#client) ?? new Error('the connection was lost');
  }
}

/** What is done, and for how long. */
interface Persistence<T> {
  readonly attempt: () => Promise<T>;
  readonly unknown: (() => Promise<T>) | undefined;
  readonly safe: boolean;
  readonly deadline: number;
}

function rethrow(error: unknown): never {
  throw error;
}

function isUnknownScript(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith('NOSCRIPT');
}
