import { openBus, openStore } from 'mcp-valise/store';
import { redisStore } from 'mcp-valise/store/redis';
import { storeContract } from 'mcp-valise/testing';
import { afterAll, describe, expect, it, onTestFinished } from 'vitest';
import {
  hasValkey,
  noServices,
  startRedis,
  startRedisCluster,
  startRedisSentinel,
  uniqueName,
} from '../services.ts';
import { because } from '../skip.ts';

const isMissing = noServices || !hasValkey();
const engine = 'valkey';
const concurrent = { describe, it: it.concurrent as typeof it };

describe.skipIf(isMissing)(
  'a store on Valkey',
  because('Valkey is not installed and could not be installed from the Debian release or its backports'),
  async () => {
    const single = isMissing ? undefined : await startRedis({ engine });
    const cluster = isMissing ? undefined : await startRedisCluster({ replicas: 1, engine });
    afterAll(async () => void (await Promise.all([single?.stop(), cluster?.stop()])));
    const url = (single?.url ?? '').replace('redis:', 'valkey:');
    const clusterUrl = (cluster?.url ?? '').replace('redis+', 'valkey+');

    describe.each([
      ['valkey://', url],
      ['valkey+cluster://', clusterUrl],
    ])('%s', (name, place) => {
      storeContract(
        () => {
          const namespace = uniqueName();
          return { open: () => redisStore(place, { namespace }) };
        },
        concurrent,
        { name, processes: false, scale: 0.05 },
      );

      it(`A bus carries messages on ${name}`, async () => {
        const [one, other] = await Promise.all([openBus(place), openBus(place)]);
        onTestFinished(async () => void (await Promise.all([one.close(), other.close()])));
        const heard: unknown[] = [];
        const topic = uniqueName();
        await other.subscribe(topic, (message) => heard.push(message));
        await one.publish(topic, { n: 1 });
        await expect.poll(() => heard).toEqual([{ n: 1 }]);
      });
    });

    it('A Valkey cluster keeps replicated writes when a primary is killed', async () => {
      const store = await redisStore(clusterUrl, { durability: 'replicated', timeout: 2 });
      onTestFinished(() => store.close());
      const keys = Array.from({ length: 30 }, (_, n) => `once/${n}`);
      for (const key of keys) await store.put(key, key, { durable: true, unlisted: true });
      process.kill(cluster!.nodes[0]!.pid, 'SIGKILL');
      for (const key of keys)
        await expect
          .poll(() => store.get(key).catch(() => undefined), { timeout: 60_000 })
          .toMatchObject({ value: key });
    });

    it('A store moves to the new primary that the Sentinels of Valkey choose', async () => {
      const fleet = await startRedisSentinel({ engine });
      onTestFinished(() => fleet.stop());
      const store = await openStore(fleet.url.replace('redis+', 'valkey+'), { timeout: 60 });
      onTestFinished(() => store.close());
      await store.put('a', 1);
      process.kill(fleet.nodes[0]!.pid, 'SIGKILL');
      expect(await store.put('b', 2)).toEqual(expect.any(String));
      expect((await store.get('b'))?.value).toBe(2);
    });
  },
);
