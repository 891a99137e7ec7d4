/**
 * The store and the bus on Redis or Valkey.
 *
 * @module
 */
import { type Duration, seconds } from '../../core/duration.ts';
import { type BusTransport, busOver } from '../bus.ts';
import type { Bus, Store } from '../types.ts';
import {
  type IoredisClient,
  isIoredis,
  type NodeRedisClient,
  type RedisClient,
  RedisConnection,
} from './connection.ts';
import { checkNamespace, RedisStore } from './store.ts';

export type { RedisClient } from './connection.ts';

/** Options of {@link redisStore}. */
export interface RedisStoreOptions {
  /** The prefix of all keys in Redis. @defaultValue `'valise'` */
  readonly namespace?: string;
  /** How long a call waits, including for an unreachable server, before it fails with `store-unavailable`. @defaultValue 10 s */
  readonly timeout?: Duration;
  /**
   * With `'replicated'`, a write of a session or of an effect is done only when a replica has it too (`WAIT`), so that
   * a failover does not lose it. @defaultValue `'local'`
   */
  readonly durability?: 'local' | 'replicated';
  /** Options for ioredis, if Valise creates the client: `tls`, `family`, `natMap`, `sentinelPassword` and so on. */
  readonly client?: Readonly<Record<string, unknown>>;
}

/**
 * Opens a store on Redis or Valkey, 5 or later.
 *
 * @param source `redis://user:password@host:6379/0`, `rediss://…` for TLS, `redis+cluster://a:6379,b:6379`,
 *   `redis+sentinel://a:26379,b:26379/PRIMARY/0`; or your own client (ioredis 5 or 6, including a Cluster; node-redis),
 *   which you close yourself.
 *
 * @example
 * ```ts
 * import { redisStore } from 'mcp-valise/store/redis';
 *
 * const store = await redisStore('redis://127.0.0.1:6379');
 * await store.put('cart/7', { items: ['tea'] }, { ttl: 3600 });
 * ```
 */
export async function redisStore(
  source: string | RedisClient,
  options: RedisStoreOptions = {},
): Promise<Store> {
  const { namespace = 'valise', timeout = 10, durability = 'local', client } = options;
  checkNamespace(namespace);
  const connection = await RedisConnection.open(source, { timeout: seconds(timeout) * 1000, client });
  const store = new RedisStore(connection, namespace, { isReplicated: durability === 'replicated' });
  // The caller's client does not have to be connected yet.
  if (typeof source === 'string') await store.prepare();
  return store;
}

/** Options of {@link redisBus}. */
export interface RedisBusOptions {
  /** Buses share messages within one namespace. Redis does not separate channels by database. @defaultValue `'valise'` */
  readonly namespace?: string;
  /** How long a call waits, including for an unreachable server, before it fails with `store-unavailable`. @defaultValue 10 s */
  readonly timeout?: Duration;
  /** Options for ioredis, if Valise creates the client. */
  readonly client?: Readonly<Record<string, unknown>>;
}

type Hear = (channel: string, text: string) => void;
type Subscriber = Omit<BusTransport, 'publish'>;

/**
 * Opens a bus on Redis or Valkey, by URL or on your own client, which is used to publish. Listening takes a second
 * connection, opened for the first listener. A lost connection is replaced and listens to the same topics.
 *
 * @example
 * ```ts
 * const bus = await redisBus('redis://127.0.0.1:6379');
 * await bus.subscribe('sessions', (message) => console.log(message));
 * ```
 */
export async function redisBus(source: string | RedisClient, options: RedisBusOptions = {}): Promise<Bus> {
  const { namespace = 'valise', timeout = 10, client } = options;
  const connection = await RedisConnection.open(source, { timeout: seconds(timeout) * 1000, client });
  return busOver(
    (topic) => `${namespace}:bus:${topic}`,
    (hear) => transportOn(connection, hear),
  );
}

function transportOn(connection: RedisConnection, hear: Hear): BusTransport {
  let subscriber: Promise<Subscriber> | undefined;
  const { client } = connection;
  const openSubscriber = async () =>
    isIoredis(client)
      ? ioredisSubscriber(connection, hear)
      : nodeRedisSubscriber(client as NodeRedisClient, connection, hear);
  return {
    async publish(channel, text) {
      await connection.command(['publish', channel, text], false);
    },
    async listen(channel) {
      subscriber ??= openSubscriber();
      const opening = subscriber;
      try {
        await (await opening).listen(channel);
      } catch (error) {
        await opening.catch(() => {
          // The next listener tries again.
          subscriber = undefined;
        });
        throw error;
      }
    },
    async unlisten(channel) {
      await (await subscriber)?.unlisten(channel);
    },
    async close() {
      await (await subscriber?.catch(() => undefined))?.close();
      connection.close();
    },
  };
}

async function ioredisSubscriber(publisher: RedisConnection, hear: Hear): Promise<Subscriber> {
  const connection = await publisher.again();
  const client = connection.client as IoredisClient;
  const channels = new Set<string>();
  client.on('message', hear);
  // ioredis can resubscribe by itself, but forgets the channels it loses while doing so.
  client.on('ready', () => {
    for (const channel of channels) client.subscribe(channel).catch(() => {});
  });
  // A silent connection may be dead, so it is probed periodically and dropped if it does not respond.
  const pulse = setInterval(() => connection.command(['ping'], true).catch(() => {}), 3 * connection.timeout);
  pulse.unref();
  return {
    async listen(channel) {
      channels.add(channel);
      await connection.run(() => client.subscribe(channel), true);
    },
    async unlisten(channel) {
      channels.delete(channel);
      // If this fails, the connection is lost, and the next one will not listen to the channel.
      await client.unsubscribe(channel).catch(() => {});
    },
    async close() {
      clearInterval(pulse);
      connection.close();
    },
  };
}

async function nodeRedisSubscriber(
  client: NodeRedisClient,
  connection: RedisConnection,
  hear: Hear,
): Promise<Subscriber> {
  const own = client.duplicate();
  own.on('error', () => {});
  await connection.run(() => own.connect(), false);
  return {
    async listen(channel) {
      await connection.run(() => own.subscribe(channel, (text) => hear(channel, text)), true);
    },
    async unlisten(channel) {
      await own.unsubscribe(channel).catch(() => {});
    },
    async close() {
      own.destroy();
    },
  };
}
