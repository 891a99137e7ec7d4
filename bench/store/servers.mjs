// Measures what a write costs the servers, not this process: CPU time and memory of each shard of a Redis Cluster, compared
// with a bare SET with the same text and lifetime; and how many updates PostgreSQL performs without touching an index (HOT).
import { createRequire } from 'node:module';
import { postgresStore } from '../../dist/store/postgres/store.js';
import { redisStore } from '../../dist/store/redis/index.js';
import { startPostgres, startRedis, startRedisCluster } from '../../scripts/services.mjs';

const require = createRequire(new URL('../../package.json', import.meta.url));
/** Writes for each shard: with fewer, what an idle server does would count. */
const WRITES = 6000;
const UPDATES = 12_000;
const ROUNDS = 5;
const IN_FLIGHT = 32;
const TTL = 3600;

const keyOf = (index) => `sessions/0123456789abcdef/record/${index}`;
const text = 'x'.repeat(400);
const median = (list) => [...list].sort((a, b) => a - b)[list.length >> 1];

async function repeat(run, writes) {
  let next = 0;
  const lane = async () => {
    while (next < writes) await run(next++);
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, lane));
}

/** Returns the primaries of a cluster, each with its CPU time in microseconds and its memory. */
async function shardsOf(client) {
  return Promise.all(
    client.nodes('master').map(async (node) => {
      const info = await node.info();
      const read = (name) => Number(new RegExp(`^${name}:([\\d.]+)`, 'm').exec(info)?.[1]);
      return {
        cpu: (read('used_cpu_user') + read('used_cpu_sys')) * 1e6,
        memory: read('used_memory_dataset'),
      };
    }),
  );
}

/** Returns CPU time per write on each shard, and bytes per new entry. */
async function cost(client, write, writes) {
  await Promise.all(client.nodes('master').map((node) => node.flushall()));
  const before = await shardsOf(client);
  await repeat(write, writes);
  const after = await shardsOf(client);
  return {
    cpu: after.map((shard, at) => (shard.cpu - before[at].cpu) / writes),
    bytes: after.reduce((sum, shard, at) => sum + shard.memory - before[at].memory, 0) / writes,
  };
}

const sum = (list) => list.reduce((total, value) => total + value, 0);

/** Compares writes of the store with bare ones on a cluster with this number of shards. */
export async function measureShards(bench, shards) {
  const name = `redis cluster, ${shards} ${shards === 1 ? 'shard' : 'shards'}`;
  if (!bench.wants(name)) return;
  const { Cluster } = require('ioredis');
  const cluster =
    shards === 1 ? await startRedis({ cluster: true }) : await startRedisCluster({ masters: shards });
  const ports = (cluster.nodes ?? [cluster]).map(({ port }) => port);
  const url = `redis+cluster://${ports.map((port) => `127.0.0.1:${port}`).join(',')}`;
  const client = new Cluster(ports.map((port) => ({ host: '127.0.0.1', port })));
  const store = await redisStore(url);
  try {
    await client.set('warm', '1');
    const bare = `o.1234567890 1790000000000 ${JSON.stringify({ text })}`;
    const mine = (index) => store.put(keyOf(index), { text }, { ttl: TTL, unlisted: true });
    const theirs = (index) => client.set(keyOf(index), bare, 'PX', TTL * 1000);
    const writes = WRITES * Math.max(2, shards);
    for (const write of [mine, theirs]) await repeat(write, WRITES);
    const rounds = [];
    for (let round = 0; round < ROUNDS; round++) {
      const [ours, peer] = [await cost(client, mine, writes), await cost(client, theirs, writes)];
      rounds.push({ ours, peer });
    }
    const byShard = (who) => ports.map((_, at) => median(rounds.map((round) => round[who].cpu[at])));
    const spreadOf = (list) => Math.max(...list) / Math.min(...list);
    const each = byShard('ours');
    const cpu = median(rounds.map(({ ours, peer }) => sum(ours.cpu) / sum(peer.cpu)));
    const memory = median(rounds.map(({ ours, peer }) => ours.bytes / peer.bytes));
    const [spread, bareSpread] = [spreadOf(each), spreadOf(byShard('peer'))];
    bench.note(
      `\n${name}: CPU µs for each put, by shard: ${each.map((value) => value.toFixed(2)).join(', ')}`,
    );
    bench.check(`${name}: CPU of the servers`, `${cpu.toFixed(2)} × a bare SET`, 'at most 1.2', cpu <= 1.2);
    bench.check(`${name}: memory`, `${memory.toFixed(2)} × a bare SET`, 'at most 1.2', memory <= 1.2);
    if (shards > 1) {
      const value = `${spread.toFixed(2)} × the idlest (bare SETs: ${bareSpread.toFixed(2)})`;
      bench.check(`${name}: busiest shard`, value, 'at most 1.15', spread <= 1.15);
    }
  } finally {
    await store.close();
    client.disconnect();
    await cluster.stop();
  }
}

/** Measures how many updates of entries with a lifetime PostgreSQL performs within the page. */
export async function measureHotUpdates(bench) {
  const name = 'postgres: HOT updates';
  if (!bench.wants(name)) return;
  const pg = require('pg');
  const postgres = await startPostgres();
  const client = new pg.Client(postgres.url);
  await client.connect();
  try {
    const store = await postgresStore(postgres.url);
    await repeat((index) => store.put(keyOf(index % 2000), { text, index }, { ttl: TTL }), UPDATES);
    // Connections report their statistics when they end.
    await store.close();
    let row;
    do {
      const sql =
        "SELECT n_tup_upd::int AS all, n_tup_hot_upd::int AS hot FROM pg_stat_user_tables WHERE relname = 'valise'";
      row = (await client.query(sql)).rows[0];
    } while (row.all < UPDATES - 2000);
    const share = row.hot / row.all;
    bench.check(name, `${(100 * share).toFixed(1)} % of ${row.all}`, 'over 90 %', share > 0.9);
  } finally {
    await client.end();
    await postgres.stop();
  }
}
