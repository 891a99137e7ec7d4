import { type Duration, seconds } from '../duration.ts';
import { busOver, type Carrier } from './bus-over.ts';
import { type IoredisClient, isIoredis, type NodeRedisClient, type RedisClient } from './redis-client.ts';
import { RedisConnection } from './redis-connection.ts';
import type { Bus } from './types.ts';

/** How a Redis bus behaves. */
export interface RedisBusOptions {
  /** Buses hear each other within one namespace; `valise` unless told. Redis does not tell its databases apart here. */
  readonly namespace?: string;
  /** How long a call waits, also for a server that is away, before it fails with `store-unavailable`; 10 s unless told. */
  readonly timeout?: Duration;
}

type Hear = (channel: string, text: string) => void;
type Ear = Omit<Carrier, 'publish'>;

/**
 * Opens a bus on Redis or Valkey, by URL or on a client of your own, which is used to publish; listening takes a second
 * connection, made when the first listener comes. Lost connections come back by themselves and go on listening.
 *
 * @example
 * ```ts
 * const bus = await openRedisBus('redis://127.0.0.1:6379');
 * await bus.subscribe('sessions', (message) => console.log(message));
 * ```
 */
export async function openRedisBus(
  source: string | RedisClient,
  options: RedisBusOptions = {},
): Promise<Bus> {
  const { namespace = 'valise', timeout = 10 } = options;
  const connection = await RedisConnection.open(source, seconds(timeout) * 1000);
  return busOver(
    (topic) => `${namespace}:bus:${topic}`,
    (hear) => carrierOn(connection, hear),
  );
}

function carrierOn(connection: RedisConnection, hear: Hear): Carrier {
  let ear: Promise<Ear> | undefined;
  const { client } = connection;
  const openEar = async () =>
    isIoredis(client) ? ioredisEar(connection, hear) : nodeRedisEar(client, connection, hear);
  return {
    async publish(channel, text) {
      await connection.command(false, 'publish', channel, text);
    },
    async listen(channel) {
      ear ??= openEar();
      const opening = ear;
      try {
        await (await opening).listen(channel);
      } catch (error) {
        await opening.catch(() => {
          // The next listener tries anew.
          ear = undefined;
        });
        throw error;
      }
    },
    async unlisten(channel) {
      await (await ear)?.unlisten(channel);
    },
    async close() {
      await (await ear?.catch(() => undefined))?.close();
      connection.close();
    },
  };
}

async function ioredisEar(publisher: RedisConnection, hear: Hear): Promise<Ear> {
  const connection = await publisher.again();
  const client = connection.client as IoredisClient;
  const channels = new Set<string>();
  client.on('message', hear);
  // ioredis can subscribe again by itself, but forgets what it lost while doing so.
  client.on('ready', () => {
    for (const channel of channels) client.subscribe(channel).catch(() => {});
  });
  // A silent connection may be a dead one: it is asked now and then, and given up where it does not answer.
  const pulse = setInterval(() => connection.command(true, 'ping').catch(() => {}), 3 * connection.timeout);
  pulse.unref();
  return {
    async listen(channel) {
      channels.add(channel);
      await connection.patiently(() => client.subscribe(channel), true);
    },
    async unlisten(channel) {
      channels.delete(channel);
      // Where this fails the connection is lost, and the next one will not listen for it.
      await client.unsubscribe(channel).catch(() => {});
    },
    async close() {
      clearInterval(pulse);
      connection.close();
    },
  };
}

async function nodeRedisEar(client: NodeRedisClient, connection: RedisConnection, hear: Hear): Promise<Ear> {
  const own = client.duplicate();
  own.on('error', () => {});
  await connection.patiently(() => own.connect(), false);
  return {
    async listen(channel) {
      await connection.patiently(() => own.subscribe(channel, (text) => hear(channel, text)), true);
    },
    async unlisten(channel) {
      await own.unsubscribe(channel).catch(() => {});
    },
    async close() {
      own.destroy();
    },
  };
}
