import { Redis } from 'ioredis';
import { openPostgresStore } from 'mcp-valise/store/postgres';
import { openRedisStore } from 'mcp-valise/store/redis';
import { storeContract } from 'mcp-valise/testing';
import pg from 'pg';
import { describe, it } from 'vitest';
import { noServices, service, uniqueName } from '../services.ts';
import { layWire } from './proxy.ts';

/** Of the whole contract, only the cases of lost replies: the rest is asked on the servers themselves. */
const onlyLostReplies = (driver: string) => ({
  describe: (_: string, body: () => void) => body(),
  it: (title: string, body: () => Promise<void>, timeout?: number) =>
    /\blost\b/.test(title) && it(`${driver} ${title}`, body, timeout),
});
const options = { losesReplies: true, processes: false, scale: 0.3 };

describe.skipIf(noServices)('through a network that loses replies', async () => {
  const redis = (await service('redis')) ?? '';
  const postgres = (await service('postgres')) ?? '';

  storeContract(
    async () => {
      const wire = await layWire(redis);
      const namespace = uniqueName();
      return {
        open: () => openRedisStore(wire.url, { namespace }),
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
        open: () => openRedisStore(client, { namespace }),
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
        open: () => openPostgresStore(wire.url, { table }),
        loseReply: wire.loseReply,
        remove: wire.close,
      };
    },
    onlyLostReplies('postgres'),
    options,
  );

  storeContract(
    async () => {
      const wire = await layWire(postgres);
      const table = uniqueName();
      const pool = new pg.Pool({ connectionString: wire.url });
      return {
        open: () => openPostgresStore(pool, { table }),
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
});
