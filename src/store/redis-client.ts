import { ValiseError } from '../errors.ts';

/** A client as ioredis and iovalkey make them, for one server or for a Cluster. */
export interface IoredisClient {
  readonly status: string;
  readonly isCluster?: boolean;
  /** The socket, on a client for one server. */
  readonly stream?: { cork(): void; uncork(): void; destroy(error: Error): unknown };
  call(command: string, ...args: string[]): Promise<unknown>;
  connect(): Promise<unknown>;
  disconnect(reconnect?: boolean): void;
  duplicate(options?: object): IoredisClient;
  subscribe(channel: string): Promise<unknown>;
  unsubscribe(channel: string): Promise<unknown>;
  on(event: 'message', listener: (channel: string, message: string) => void): unknown;
  on(event: 'error', listener: (error: Error) => void): unknown;
  on(event: 'ready' | 'end', listener: () => void): unknown;
  off(event: 'ready' | 'end' | 'error', listener: (error: Error) => void): unknown;
}

/** A connected client as the package `redis` (or `@redis/client`) makes them, for one server. */
export interface NodeRedisClient {
  sendCommand(args: string[]): Promise<unknown>;
  connect(): Promise<unknown>;
  destroy(): void;
  duplicate(): NodeRedisClient;
  subscribe(channel: string, listener: (message: string) => void): Promise<unknown>;
  unsubscribe(channel: string): Promise<unknown>;
  on(event: 'error', listener: (error: Error) => void): unknown;
}

/** A client of yours that Valise works through; it stays yours to close. */
export type RedisClient = IoredisClient | NodeRedisClient;

/** True for the kind of client that ioredis makes. */
export function isIoredis(client: RedisClient): client is IoredisClient {
  return 'call' in client;
}

/**
 * How Valise's own clients behave: they come back by themselves, never send a command a second time unasked,
 * and connect within `timeout` milliseconds.
 */
export function ownBehaviour(timeout: number) {
  return {
    lazyConnect: true,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    autoResubscribe: false,
    connectTimeout: timeout,
    // What is under way when a connection is lost, or given up (see Watch), fails at once.
    maxRetriesPerRequest: 0,
    retryStrategy: (times: number): number => Math.min(20 * 2 ** Math.min(times, 6), 1000),
    // After a failover the old primary only reads: look where the name leads now.
    reconnectOnError: (error: Error): boolean => error.message.startsWith('READONLY'),
  };
}

/** Makes a client with ioredis, which is loaded only now. */
export async function createClient(url: string, timeout: number): Promise<IoredisClient> {
  checkDatabase(new URL(url));
  const { Redis } = await import('ioredis').catch((cause: unknown) => {
    throw new ValiseError('store-driver-missing', 'A Redis store needs the package ioredis.', {
      next: 'Run `npm install ioredis`, or hand over a client of your own.',
      cause,
    });
  });
  return new Redis(url, { ...ownBehaviour(timeout), connectionName: 'valise' });
}

/** ioredis takes what is no number for none, and goes on in database 0. */
function checkDatabase({ pathname, searchParams }: URL): void {
  if (/^(\/\d*)?$/.test(pathname) && /^\d+$/.test(searchParams.get('db') ?? '0')) return;
  // Not repeated: where a password was not written as %XX, this may be a part of it.
  throw new ValiseError(
    'store-bad-url',
    'This URL of Redis names a database by something other than its number.',
    {
      next: 'Write it like redis://user:password@host:6379/0, odd characters as %XX.',
    },
  );
}
