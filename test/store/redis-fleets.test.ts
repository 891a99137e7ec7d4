import { once } from 'node:events';
import { Cluster } from 'ioredis';
import { openBus, openStore } from 'mcp-valise/store';
import { redisStore } from 'mcp-valise/store/redis';
import { storeContract } from 'mcp-valise/testing';
import { afterAll, describe, expect, it, onTestFinished } from 'vitest';
import { noServices, startRedisCluster, startRedisSentinel, uniqueName } from '../services.ts';

const quick = { describe, it: it.concurrent as typeof it };

describe.skipIf(noServices)('a Redis Cluster of three primaries, by URL', async () => {
  const cluster = noServices ? undefined : await startRedisCluster();
  afterAll(() => cluster?.stop());
  const url = cluster?.url ?? '';

  storeContract(
    () => {
      const namespace = uniqueName();
      return { open: () => redisStore(url, { namespace }) };
    },
    quick,
    { name: 'redis+cluster', processes: false, scale: 0.05 },
  );

  it('A Redis Cluster has the entries of one namespace spread evenly over its primaries', async () => {
    const store = await redisStore(url, { namespace: uniqueName() });
    onTestFinished(() => store.close());
    const client = new Cluster(cluster!.nodes.map(({ url: node }) => node));
    onTestFinished(() => client.disconnect());
    await once(client, 'ready');
    const sizes = () => Promise.all(client.nodes('master').map((node) => node.dbsize()));
    const before = await sizes();
    for (let n = 0; n < 3000; n += 50)
      await Promise.all(
        Array.from({ length: 50 }, (_, k) => store.put(`session/${n + k}`, n, { unlisted: true })),
      );
    const added = (await sizes()).map((size, at) => size - before[at]!);
    expect(Math.max(...added) / Math.min(...added)).toBeLessThan(1.15);
  });

  it('A Redis Cluster carries messages of the bus between nodes', async () => {
    const [one, other] = await Promise.all([openBus(url), openBus(url)]);
    onTestFinished(async () => void (await Promise.all([one.close(), other.close()])));
    const heard: unknown[] = [];
    const topic = uniqueName();
    await other.subscribe(topic, (message) => heard.push(message));
    await one.publish(topic, { n: 1 });
    await expect.poll(() => heard).toEqual([{ n: 1 }]);
  });

  it('The error of a store with the URL of one node names the Redis Cluster', async () => {
    const [node] = cluster!.nodes;
    const store = await openStore(node!.url, { timeout: 5 }).catch((error: Error) => error);
    const errors = [store];
    if (!(store instanceof Error))
      for (let n = 0; n < 64; n++)
        errors.push((await store.put(`k${n}`, n).catch((error: Error) => error)) as never);
    const moved = errors.find((error): error is Error => error instanceof Error);
    expect(moved).toMatchObject({ code: 'store-failed', outcome: 'not-done' });
    expect(moved?.message).toContain('redis+cluster://');
    if (!(store instanceof Error)) await store.close();
  });
});

describe.skipIf(noServices)('a Redis Cluster with replicas', () => {
  it('A Redis Cluster keeps acknowledged replicated writes when a primary is killed', async () => {
    const cluster = await startRedisCluster({ replicas: 1 });
    onTestFinished(() => cluster.stop());
    const store = await redisStore(cluster.url, { durability: 'replicated', timeout: 2 });
    onTestFinished(() => store.close());
    const acknowledged: string[] = [];
    // A shard whose only replica was promoted confirms nothing more: few writes after the kill.
    for (let n = 0; n < 42; n++) {
      if (n === 30) process.kill(cluster.nodes[0]!.pid, 'SIGKILL');
      const key = `once/${n}`;
      const version = await store
        .put(key, n, { durable: true, unlisted: true })
        .catch((error: { outcome?: string }) => {
          expect(error.outcome).toBeDefined();
          return undefined;
        });
      if (version) acknowledged.push(key);
    }
    expect(acknowledged.length).toBeGreaterThanOrEqual(30);
    for (const key of acknowledged)
      await expect
        .poll(() => store.get(key).catch(() => undefined), { timeout: 60_000 })
        .toMatchObject({ value: Number(key.slice(5)) });
  });

  it('A Redis Cluster refuses a replicated write if no replica answers', async () => {
    const cluster = await startRedisCluster({ masters: 3 });
    onTestFinished(() => cluster.stop());
    const store = await redisStore(cluster.url, { durability: 'replicated', timeout: 0.5 });
    onTestFinished(() => store.close());
    await expect(store.put('a', 1, { durable: true })).rejects.toMatchObject({
      code: 'store-unavailable',
      outcome: 'unknown',
    });
    expect(await store.put('b', 1)).toEqual(expect.any(String));
  });
});

describe.skipIf(noServices)('Redis Sentinel, by URL', () => {
  it('A store on Sentinel moves to the new primary after a failover and serves waiting calls', async () => {
    const fleet = await startRedisSentinel();
    onTestFinished(() => fleet.stop());
    const store = await openStore(fleet.url, { timeout: 60 });
    onTestFinished(() => store.close());
    await store.put('a', 1);
    process.kill(fleet.nodes[0]!.pid, 'SIGKILL');
    expect(await store.put('b', 2)).toEqual(expect.any(String));
    expect((await store.get('b'))?.value).toBe(2);
  });

  it.each([
    'redis+sentinel://127.0.0.1:1',
    'redis://a:1,b:2',
    'redis+sentinel://127.0.0.1:1/name/x',
    'redis+other://a',
  ])('A Sentinel store refuses %s as a URL', async (url) => {
    await expect(redisStore(url)).rejects.toMatchObject({ code: 'store-invalid' });
  });
});
