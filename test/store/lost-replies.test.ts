import { Redis } from 'ioredis';
import { postgresStore } from 'mcp-valise/store/postgres';
import { redisStore } from 'mcp-valise/store/redis';
import { storeContract } from 'mcp-valise/testing';
import pg from 'pg';
import { describe, expect, it, onTestFinished } from 'vitest';
import { noServices, service, uniqueName } from '../services.ts';
import { layWire } from './proxy.ts';

/** Of the whole contract, only the cases of lost replies: the rest is asked on the servers themselves. */
const onlyLostReplies = (driver: string) => ({
  describe: (_: string, body: () => void) => body(),
  it: (title: string, body: () => Promise<void>, timeout?: number) =>
    /\blost\b/.test(title) && it(`${driver} ${title}`, body, timeout),
});
const options = { losesReplies: true, processes: false, scale: 0.3 };

describe.skipIf(noServices)('a network that loses replies', async () => {
  const redis = (await service('redis')) ?? '';
  const postgres = (await service('postgres')) ?? '';

  storeContract(
    async () => {
      const wire = await layWire(redis);
      const namespace = uniqueName();
      return {
        open: () => redisStore(wire.url, { namespace }),
        loseReply: wire.loseReply,
        remove: wire.close,
      };
    },
    onlyLostReplies('redis'),
    options,
  );

  storeContract(
    async () => {
      const wire = await layWire(redis);
      const namespace = uniqueName();
      // As ioredis is by default: it sends again what a lost connection left open.
      const client = new Redis(wire.url);
      client.on('error', () => {});
      return {
        open: () => redisStore(client, { namespace }),
        loseReply: wire.loseReply,
        async remove() {
          client.disconnect();
          await wire.close();
        },
      };
    },
    onlyLostReplies('redis on a client of the caller'),
    options,
  );

  storeContract(
    async () => {
      const wire = await layWire(postgres);
      const table = uniqueName();
      return {
        open: () => postgresStore(wire.url, { table }),
        loseReply: wire.loseReply,
        remove: wire.close,
      };
    },
    onlyLostReplies('postgres'),
    options,
  );

  it.each([
    ['redis', redis, (url: string) => redisStore(url, { namespace: uniqueName(), timeout: '1s' })],
    ['postgres', postgres, (url: string) => postgresStore(url, { table: uniqueName(), timeout: '1s' })],
  ] as const)(
    'The %s store does not revert a write whose reply was lost if the server is unreachable afterwards',
    async (_, url, open) => {
      const wire = await layWire(url);
      const store = await open(wire.url);
      onTestFinished(async () => {
        await store.close();
        await wire.close();
      });
      const version = (await store.put('a', 1)) as string;
      wire.loseReply();
      wire.refuse('stays');
      await expect(store.put('a', 2, { ifVersion: version })).rejects.toMatchObject({ outcome: 'unknown' });
      wire.mend();
      expect((await store.get('a'))?.value).toBe(2);
    },
  );

  storeContract(
    async () => {
      const wire = await layWire(postgres);
      const table = uniqueName();
      const pool = new pg.Pool({ connectionString: wire.url });
      return {
        open: () => postgresStore(pool, { table }),
        loseReply: wire.loseReply,
        async remove() {
          await pool.end();
          await wire.close();
        },
      };
    },
    onlyLostReplies('postgres on a pool of the caller'),
    options,
  );

  const onClient = (url: string) => {
    const client = new Redis(url);
    client.on('error', () => {});
    onTestFinished(() => client.disconnect());
    return client;
  };
  const onPool = (url: string) => {
    const pool = new pg.Pool({ connectionString: url });
    onTestFinished(() => pool.end());
    return pool;
  };
  const DRIVERS = [
    [
      'redis',
      redis,
      (url: string, name: string, timeout = 10) => redisStore(url, { namespace: name, timeout }),
    ],
    [
      'redis on a client of the caller',
      redis,
      (url: string, name: string, timeout = 10) => redisStore(onClient(url), { namespace: name, timeout }),
    ],
    [
      'postgres',
      postgres,
      (url: string, name: string, timeout = 10) => postgresStore(url, { table: name, timeout }),
    ],
    [
      'postgres on a pool of the caller',
      postgres,
      (url: string, name: string, timeout = 10) => postgresStore(onPool(url), { table: name, timeout }),
    ],
  ] as const;

  it.each(DRIVERS)(
    'The %s store reports no conflict if the reply was lost and another writer came after',
    async (_, url, open) => {
      const name = uniqueName();
      const wire = await layWire(url);
      onTestFinished(() => wire.close());
      const [store, other] = [await open(wire.url, name), await open(url, name)];
      onTestFinished(async () => void (await Promise.all([store.close(), other.close()])));
      for (const [key, condition] of [
        ['changed', { ifVersion: (await store.put('changed', 0)) as string }],
        ['created', { ifAbsent: true }],
      ] as const) {
        const lost = new Promise<() => void>((resolve) => {
          wire.loseReply(() => resolve(wire.freeze()));
        });
        const written = store.put(key, 1, condition).catch((error: { outcome?: string }) => error.outcome);
        const thaw = await lost;
        const mine = await other.get(key);
        expect(mine?.value).toBe(1);
        await other.put(key, 2, { ifVersion: mine!.version });
        thaw();
        // It was done: neither "somebody else wrote" nor the version that is there now.
        expect(await written).toBe('unknown');
        expect((await other.get(key))?.value).toBe(2);
      }
    },
  );

  it.each(DRIVERS)(
    'The %s store says that a write may have been done if its reply was lost and no later attempt got through',
    async (_, url, open) => {
      const name = uniqueName();
      const wire = await layWire(url);
      onTestFinished(() => wire.close());
      const store = await open(wire.url, name, 1);
      onTestFinished(() => store.close());
      const version = (await store.put('a', 0)) as string;
      let thaw = () => {};
      wire.loseReply(() => {
        thaw = wire.freeze();
      });
      const outcome = await store.put('a', 1, { ifVersion: version }).catch((error: Error) => error);
      thaw();
      expect(outcome).toMatchObject({
        outcome: 'unknown',
        message: expect.stringContaining('may or may not have been done'),
      });
      expect((await store.get('a'))?.value).toBe(1);
    },
  );
});
