import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { generateKey } from 'mcp-valise/seal';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  noServices,
  type Service,
  startPostgresPair,
  startRedis,
  startRedisCluster,
  startRedisSentinel,
} from '../services.ts';
import { because } from '../skip.ts';
import { canMakeDisk } from '../store/elsewhere.ts';
import { layWire, type Wire } from '../store/proxy.ts';
import { type Bench, during, endsAfterwards, every, killInTurn, openBench } from './bench.ts';
import { crash, frozen, fullDisk, hasTakenOver, locked, until } from './faults.ts';
import { addVersion, writeReport } from './report.ts';

const isSoak = process.env['VALISE_SOAK'] === '1';
const hasDisk = isSoak && canMakeDisk();

describe.skipIf(!isSoak || noServices)('the fault table', because('part of npm run test:soak'), () => {
  afterAll(writeReport);

  describe('Redis', () => {
    const later = endsAfterwards();
    let redis: Service;
    let wire: Wire;
    let admin: Redis;
    let bench: Bench;
    beforeAll(async () => {
      redis = await startRedis();
      later(redis.stop);
      wire = await layWire(redis.url);
      later(wire.close);
      admin = new Redis(redis.url);
      admin.on('error', () => {});
      later(() => admin.disconnect());
      addVersion('Redis', /redis_version:(\S+)/.exec(await admin.info('server'))?.[1] ?? '?');
      bench = await openBench('Redis', { store: wire.url }, later);
    });
    const set = (name: string, value: string) => () => admin.config('SET', name, value);
    const signal = (name: NodeJS.Signals) => () => bench.fleet.instances[0]?.signal(name);

    it('A fleet on Redis duplicates no effect without a fault', () => bench.row('none', () => pause(2000)));
    it('A fleet on Redis duplicates no effect while instances are killed', () =>
      bench.row('instances are killed in turn (SIGKILL)', () => killInTurn(bench.fleet)));
    it('A fleet on Redis duplicates no effect while an instance is paused', () =>
      bench.row('an instance is paused for 4 s (SIGSTOP)', () =>
        during(4, signal('SIGSTOP'), signal('SIGCONT')),
      ));
    it('A fleet on Redis duplicates no effect while the store is paused', () =>
      bench.row('the store is paused for 5 s (SIGSTOP)', () =>
        during(
          5,
          () => process.kill(redis.pid, 'SIGSTOP'),
          () => process.kill(redis.pid, 'SIGCONT'),
        ),
      ));
    it('A fleet on Redis duplicates no effect while replies are cut', () =>
      bench.row('a reply is lost with its connection every 50 ms', () => every(50, wire.loseReply)));
    it('A fleet on Redis duplicates no effect while the network is frozen', () =>
      bench.row('the network to the store is frozen for 5 s', () => frozen(wire)));
    it('A fleet on Redis duplicates no effect while the store is slow', () =>
      bench.row('messages to and from the store take 150 ms more', () =>
        during(
          4,
          () => wire.slow(150),
          () => wire.slow(0),
        ),
      ));
    it('A fleet on Redis duplicates no effect while writes are refused', () =>
      bench.row('writes are refused for 3 s (`min-replicas-to-write`)', () =>
        during(3, set('min-replicas-to-write', '1'), set('min-replicas-to-write', '0')),
      ));
    it('A fleet on Redis duplicates no effect while memory is full', () =>
      bench.row('memory is full for 3 s (`noeviction`)', () =>
        during(3, set('maxmemory', '1'), set('maxmemory', '0')),
      ));
    it('A fleet on Redis duplicates no effect while the store restarts', () =>
      bench.row('the store restarts with its data', () => redis.restart()));
    it('A fleet on Redis duplicates no effect while a clock jumps', () =>
      bench.row('the clock of an instance jumps an hour ahead, and back', () =>
        during(3, signal('SIGUSR2'), signal('SIGUSR2')),
      ));
    it('A fleet on Redis duplicates no effect while keys are rotated', () =>
      bench.row('keys are rotated, two steps rolled out in turn', async () => {
        const next = generateKey();
        for (const ring of [`${bench.keys},${next}`, `${next},${bench.keys}`]) {
          bench.fleet.useKeys(ring);
          for (const instance of bench.fleet.instances) {
            await instance.end();
            await instance.start();
          }
        }
      }));
  });

  describe.skipIf(!hasDisk)('Redis with an append-only file', because('needs the right to mount'), () => {
    const later = endsAfterwards();
    let redis: Service;
    let bench: Bench;
    beforeAll(async () => {
      redis = await startRedis({
        disk: '8m',
        args: ['--appendonly', 'yes', '--auto-aof-rewrite-percentage', '0'],
      });
      later(redis.stop);
      bench = await openBench('Redis', { store: redis.url }, later);
    });

    it('A fleet on Redis duplicates no effect while the disk is full', () =>
      bench.row('the disk of the append-only file is full for 4 s', () =>
        fullDisk(`/proc/${redis.pid}/root${redis.dir}`),
      ));
  });

  describe.each([
    { name: 'PostgreSQL', durability: undefined },
    { name: "PostgreSQL, `durability: 'replicated'`", durability: 'replicated' },
  ] as const)('$name', ({ name, durability }) => {
    const later = endsAfterwards();
    let pair: Awaited<ReturnType<typeof startPostgresPair>>;
    let wire: Wire;
    let bench: Bench;
    beforeAll(async () => {
      pair = await startPostgresPair({ synchronous: durability === 'replicated' });
      later(pair.stop);
      wire = await layWire(pair.primary.url);
      later(wire.close);
      addVersion('PostgreSQL', String(await query('SHOW server_version')));
      const hosts = `127.0.0.1:${new URL(wire.url).port},127.0.0.1:${pair.replica.port}`;
      const store = `postgres://valise@${hosts}/postgres?target_session_attrs=read-write`;
      bench = await openBench(name, { store, durability }, later);
    });
    /** On the primary itself; the first column. */
    const query = async (...texts: string[]): Promise<unknown> => {
      const client = new pg.Client(pair.primary.url);
      await client.connect();
      let value: unknown;
      for (const text of texts) value = Object.values((await client.query(text)).rows[0] ?? {})[0];
      await client.end();
      return value;
    };
    const readOnly = (value: string) => () =>
      query(`ALTER SYSTEM SET default_transaction_read_only = ${value}`, 'SELECT pg_reload_conf()');

    if (durability === undefined) {
      it('A fleet on PostgreSQL duplicates no effect while instances are killed', () =>
        bench.row('instances are killed in turn (SIGKILL)', () => killInTurn(bench.fleet)));
      it('A fleet on PostgreSQL duplicates no effect while replies are cut', () =>
        bench.row('a reply is lost with its connection every 50 ms', () => every(50, wire.loseReply)));
      it('A fleet on PostgreSQL duplicates no effect while the network is frozen', () =>
        bench.row('the network to the store is frozen for 5 s', () => frozen(wire)));
      it('A fleet on PostgreSQL duplicates no effect while connections are ended by the server', () =>
        bench.row('the server ends all connections every 400 ms', () =>
          every(400, () =>
            query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'valise'"),
          ),
        ));
      it('A fleet on PostgreSQL duplicates no effect while writes are refused', () =>
        bench.row('writes are refused for 3 s (read-only)', () =>
          during(3, readOnly('on'), readOnly('off')),
        ));
      it('A fleet on PostgreSQL duplicates no effect while the store crashes and restarts', () =>
        bench.row('the store crashes and restarts', async () => {
          await crash(pair.primary);
          await pair.primary.start();
        }));
    }
    it(`A fleet on ${name} duplicates no effect while the replica is promoted`, () =>
      bench.row(
        'the primary crashes, and the replica is promoted after 1 s',
        async () => {
          // After a restart of the primary it may take seconds until the replica follows it again.
          await expect
            .poll(() => query("SELECT 1 FROM pg_stat_replication WHERE state = 'streaming'"), {
              timeout: 20_000,
            })
            .toBe(1);
          await crash(pair.primary);
          await pause(1000);
          await pair.promote();
        },
        durability === 'replicated',
      ));
  });

  describe.each([
    { name: 'Redis Cluster', durability: undefined },
    { name: "Redis Cluster, `durability: 'replicated'`", durability: 'replicated' },
  ] as const)('$name', ({ name, durability }) => {
    const later = endsAfterwards();
    let cluster: Awaited<ReturnType<typeof startRedisCluster>>;
    let bench: Bench;
    beforeAll(async () => {
      cluster = await startRedisCluster({ replicas: 1 });
      later(cluster.stop);
      bench = await openBench(name, { store: cluster.url, durability }, later);
    });

    it(`A fleet on ${name} duplicates no effect while a primary is killed`, () =>
      bench.row(
        'a primary is killed, its replica takes over, and it comes back as a replica',
        async () => {
          const [dead, alive] = cluster.nodes as [Service, Service];
          process.kill(dead.pid, 'SIGKILL');
          await until(alive, (admin) =>
            admin.cluster('NODES').then((nodes) => hasTakenOver(String(nodes), dead)),
          );
          await dead.start();
          await until(alive, async (admin) => !/fail/.test(String(await admin.cluster('NODES'))));
        },
        durability === 'replicated',
      ));
  });

  describe.each([
    { name: 'Redis Sentinel', durability: undefined },
    { name: "Redis Sentinel, `durability: 'replicated'`", durability: 'replicated' },
  ] as const)('$name', ({ name, durability }) => {
    const later = endsAfterwards();
    let sentinel: Awaited<ReturnType<typeof startRedisSentinel>>;
    let bench: Bench;
    beforeAll(async () => {
      sentinel = await startRedisSentinel();
      later(sentinel.stop);
      bench = await openBench(name, { store: sentinel.url, durability }, later);
    });

    it(`A fleet on ${name} duplicates no effect while the primary is killed`, () =>
      bench.row(
        'the primary is killed, its replica takes over, and it comes back as a replica',
        async () => {
          const [dead, alive] = sentinel.nodes as [Service, Service];
          process.kill(dead.pid, 'SIGKILL');
          await until(alive, async (admin) => /role:master/.test(await admin.info('replication')));
          await dead.start();
          await until(alive, async (admin) => /connected_slaves:1/.test(await admin.info('replication')));
        },
        durability === 'replicated',
      ));
  });

  describe('SQLite', () => {
    const later = endsAfterwards();
    const folder = mkdtempSync(join(tmpdir(), 'valise-sqlite-'));
    const within: string[] = [];
    let disk = 0;
    let bench: Bench;
    beforeAll(async () => {
      later(() => rmSync(folder, { recursive: true, force: true }));
      if (hasDisk) {
        // The disk is there for this process, and for those that join it.
        const mount = 'mount -t tmpfs -o size=16m,mode=700 tmpfs "$0" && echo ready && exec sleep 600';
        const holder = spawn('unshare', ['--mount', 'sh', '-c', mount, folder], {
          stdio: ['ignore', 'pipe', 2],
        });
        later(() => holder.kill('SIGKILL'));
        await once(holder.stdout as NodeJS.ReadableStream, 'data');
        disk = holder.pid as number;
        within.push('nsenter', `--mount=/proc/${disk}/ns/mnt`);
      }
      bench = await openBench('SQLite', { store: `sqlite:${folder}/state.db`, within }, later);
    });

    it('A fleet on SQLite duplicates no effect while instances are killed', () =>
      bench.row('instances are killed in turn (SIGKILL)', () => killInTurn(bench.fleet)));
    it('A fleet on SQLite duplicates no effect while the database is locked', () =>
      bench.row('another process locks the database for 4 s', () => locked(`${folder}/state.db`, within)));
    it.skipIf(!hasDisk)(
      'A fleet on SQLite duplicates no effect while the disk is full',
      because('needs the right to mount'),
      () => bench.row('the disk is full for 4 s', () => fullDisk(`/proc/${disk}/root${folder}`)),
    );
  });
});
