import { setTimeout as pause } from 'node:timers/promises';
import { ValiseError } from '../errors.ts';
import {
  createClient,
  type IoredisClient,
  isIoredis,
  OWN_BEHAVIOUR,
  type RedisClient,
} from './redis-client.ts';
import type { Script } from './redis-scripts.ts';
import { placeOf, remoteError, type Trouble, timeoutError, within } from './remote.ts';

/** A client with manners: no call waits for ever, and every failure is a typed error. */
export class RedisConnection {
  readonly #client: RedisClient;
  readonly #owned: boolean;
  readonly #server: string;
  readonly #timeout: number;
  #corked: IoredisClient['stream'];

  private constructor(client: RedisClient, owned: boolean, server: string, timeout: number) {
    this.#client = client;
    this.#owned = owned;
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
    return RedisConnection.#own(this.#client.duplicate(OWN_BEHAVIOUR), this.#server, this.#timeout);
  }

  static async #own(client: IoredisClient, server: string, timeout: number): Promise<RedisConnection> {
    // Without a listener ioredis writes to the console; here it reaches the calls that fail for it.
    client.on('error', (error) => lastErrors.set(client, error));
    const connection = new RedisConnection(client, true, server, timeout);
    try {
      await connection.ready();
    } catch (error) {
      connection.close();
      throw error;
    }
    return connection;
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
    if (this.#owned) (this.#client as IoredisClient).disconnect();
  }

  #send(args: string[]): Promise<unknown> {
    const client = this.#client;
    if (!isIoredis(client)) return client.sendCommand(args);
    if (this.#owned && this.#corked === undefined) this.#cork(client.stream);
    return client.call(...(args as [string, ...string[]]));
  }

  /** Lets all commands of one turn of the event loop leave in one write: nearly half of what a command costs is its write. */
  #cork(stream: IoredisClient['stream']): void {
    if (!stream) return;
    this.#corked = stream;
    stream.cork();
    process.nextTick(() => {
      this.#corked = undefined;
      stream.uncork();
    });
  }

  /** Does what `attempt` does on the client, once it is ready and within the time given; `unknown` where it is a script unknown there. */
  async patiently<T>(attempt: () => Promise<T>, safe: boolean, unknown?: () => Promise<T>): Promise<T> {
    let send = attempt;
    const deadline = performance.now() + this.#timeout;
    for (let round = 1; ; round++) {
      if (!isReady(this.#client)) await this.ready(deadline);
      try {
        // Our own clients give up by themselves (see createClient), with one timer for all calls under way.
        return await (this.#owned ? send() : this.#withinTime(send(), deadline, safe));
      } catch (error) {
        if (error instanceof ValiseError) throw error;
        if (unknown && isUnknownScript(error)) {
          send = unknown;
          continue;
        }
        const trouble = troubleOf(error);
        const again = trouble.code === 'store-unavailable' && (safe || trouble.undone);
        if (!again || performance.now() >= deadline) {
          throw remoteError(
            this.#server,
            trouble,
            trouble.code === 'store-unavailable' ? this.#reason(error) : error,
          );
        }
        await pause(Math.min(5 * round, 100));
      }
    }
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

function isUnknownScript(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith('NOSCRIPT');
}

function isReady(client: RedisClient): boolean {
  return !isIoredis(client) || client.status === 'ready';
}

const lastErrors = new WeakMap<IoredisClient, Error>();
const waits = new WeakMap<IoredisClient, Promise<void>>();

/** Resolves once the client is ready; one wait for all who wait for the same client. */
function untilReady(client: IoredisClient): Promise<void> {
  const known = waits.get(client);
  if (known) return known;
  const wait = new Promise<void>((resolve, reject) => {
    const settle = (act: () => void) => {
      waits.delete(client);
      client.off('ready', ready);
      client.off('end', end);
      client.off('error', failed);
      act();
    };
    const ready = () => {
      lastErrors.delete(client);
      settle(resolve);
    };
    const end = () => settle(() => reject(lastErrors.get(client) ?? new Error('the client has been ended')));
    const failed = (error: Error) => {
      lastErrors.set(client, error);
      // Waiting helps against a server that is away, not against one that refuses.
      if (troubleOf(error).code === 'store-denied') settle(() => reject(error));
    };
    client.on('ready', ready);
    client.on('end', end);
    client.on('error', failed);
    if (client.status === 'wait') client.connect().catch(() => {});
    if (client.status === 'end') end();
  });
  if (client.status !== 'end') waits.set(client, wait);
  return wait;
}

const TROUBLES: readonly (readonly [RegExp, Trouble])[] = [
  [
    /^(NOAUTH|WRONGPASS|NOPERM)|invalid password|Authentication required/,
    { code: 'store-denied', undone: true },
  ],
  [/\b(READONLY|MISCONF)\b/, { code: 'store-read-only', undone: true }],
  [/\bOOM\b/, { code: 'store-full', undone: true }],
  [
    /^(LOADING|BUSY|CLUSTERDOWN|TRYAGAIN|MASTERDOWN|NOREPLICAS)\b/,
    { code: 'store-unavailable', undone: true },
  ],
  [/Stream isn't writeable/, { code: 'store-unavailable', undone: true }],
];

/** What a client's error means. */
export function troubleOf(error: unknown): Trouble {
  const { name, message } = error instanceof Error ? error : new Error(String(error));
  const known = TROUBLES.find(([pattern]) => pattern.test(message));
  if (known) return known[1];
  // The names that ioredis and node-redis give to what the server itself answered; all else happened on the way.
  const answered = /^(ReplyError|ErrorReply|SimpleError|BlobError)$/.test(name);
  return { code: answered ? 'store-failed' : 'store-unavailable', undone: false };
}
