import { createClient } from '@redis/client';
import { Cluster, Redis } from 'ioredis';
import { Redis as Redis5 } from 'ioredis-5';
import { type RedisClient, redisBus, redisStore } from 'mcp-valise/store/redis';
import { busContract, storeContract } from 'mcp-valise/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { noServices, type Service, service, startRedis, uniqueName } from '../services.ts';
import { because } from '../skip.ts';

const url = (await service('redis')) as string;

/** The quick form of both contracts on a client that the caller made. */
function contractsOn(name: string, client: () => RedisClient): void {
  storeContract(
    () => {
      const namespace = uniqueName();
      return { open: () => redisStore(client(), { namespace }) };
    },
    { describe, it: (title, body, timeout) => it.concurrent(title, body, timeout) },
    { name, processes: false, scale: 0.05 },
  );
  const namespace = uniqueName();
  busContract(() => redisBus(client(), { namespace }), { describe, it }, { name });
}

describe.skipIf(!url)('the Redis store on a client of the caller', because('needs Redis'), () => {
  const six = new Redis(url, { lazyConnect: true });
  const prefixed = new Redis(url, { lazyConnect: true, keyPrefix: `${uniqueName()}:` });
  const five = new Redis5(url, { lazyConnect: true });
  const node = createClient({ url });
  const node3 = createClient({ url, RESP: 3 });
  beforeAll(() => Promise.all([node.connect(), node3.connect()]));
  afterAll(() => {
    for (const client of [six, prefixed, five]) client.disconnect();
    for (const client of [node, node3]) client.destroy();
  });

  contractsOn('ioredis 6', () => six);
  contractsOn('ioredis 6 with a prefix for keys', () => prefixed);
  contractsOn('ioredis 5', () => five);
  contractsOn('node-redis', () => node);
  contractsOn('node-redis with RESP3', () => node3);

  it('Closing the Redis store leaves the client of the caller open', async () => {
    const namespace = uniqueName();
    for (const client of [six, node] as const) {
      const store = await redisStore(client, { namespace });
      const bus = await redisBus(client, { namespace });
      await bus.subscribe('t', () => {});
      await store.close();
      await bus.close();
      expect(await (client === node ? node.ping() : six.ping())).toBe('PONG');
    }
  });

  it('The Redis store fails on a client that was closed before', async () => {
    const ended = new Redis(url, { lazyConnect: true });
    ended.disconnect();
    const store = await redisStore(ended, { timeout: 0.3 });
    await expect(store.get('a')).rejects.toMatchObject({ code: 'store-unavailable' });
  });
});

describe.skipIf(noServices)('the Redis store on a Redis Cluster', because('needs servers'), () => {
  let server: Service;
  let cluster: Cluster;
  beforeAll(async () => {
    server = await startRedis({ cluster: true });
    cluster = new Cluster([server.url]);
  });
  afterAll(async () => {
    cluster?.disconnect();
    await server?.stop();
  });

  contractsOn('ioredis Cluster', () => cluster);
});
