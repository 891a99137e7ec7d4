#!/usr/bin/env node
// Starts private servers for tests and benches: on free ports of 127.0.0.1, with data in a temporary folder. They are
// removed at the end, even if this process is killed. A server that this script did not start is used only if a variable
// names it: VALISE_TEST_REDIS, VALISE_TEST_POSTGRES.
//
//   node scripts/services.mjs [redis] [postgres]              prints their URLs and runs them until it is stopped
//   node scripts/services.mjs [redis] [postgres] -- COMMAND   runs COMMAND with their URLs in its environment
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { realpathSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { startPostgres, startPostgresPair } from './services/postgres.mjs';
import { hasValkey, startRedis, startRedisCluster, startRedisSentinel } from './services/redis.mjs';

export { freePort } from './services/daemon.mjs';
export { startHaproxy } from './services/haproxy.mjs';
export { startDocumentedNginx, startNginx } from './services/nginx.mjs';
export { startPgBouncer } from './services/pgbouncer.mjs';
export { startPrometheus } from './services/prometheus.mjs';
export { hasValkey, startPostgres, startPostgresPair, startRedis, startRedisCluster, startRedisSentinel };

const KINDS = {
  redis: { variable: 'VALISE_TEST_REDIS', start: startRedis },
  postgres: { variable: 'VALISE_TEST_POSTGRES', start: startPostgres },
};

/**
 * Returns servers of these kinds: those that the environment names, or else new ones. Pass `env` to a child process so
 * that it uses the same servers; `stop()` ends only those that were started here.
 */
export async function startServices(kinds = Object.keys(KINDS)) {
  const started = [];
  const urls = {};
  const stop = async () => void (await Promise.all(started.map((service) => service.stop())));
  const outcomes = await Promise.allSettled(
    kinds.map(async (kind) => {
      const { variable, start } = KINDS[kind];
      const named = process.env[variable];
      if (named) {
        urls[kind] = named;
        return;
      }
      const service = await start();
      started.push(service);
      urls[kind] = service.url;
    }),
  );
  const failed = outcomes.find(({ status }) => status === 'rejected');
  if (failed) {
    await stop();
    throw failed.reason;
  }
  const env = Object.fromEntries(kinds.map((kind) => [KINDS[kind].variable, urls[kind]]));
  return { urls, env, stop };
}

async function main(args) {
  const dashes = args.indexOf('--');
  const [command, ...rest] = dashes === -1 ? [] : args.slice(dashes + 1);
  const asked = dashes === -1 ? args : args.slice(0, dashes);
  const unknown = asked.find((kind) => !(kind in KINDS));
  if (unknown !== undefined) {
    console.error('usage: node scripts/services.mjs [redis] [postgres] [-- COMMAND ARGS…]');
    return 2;
  }
  const { env, stop } = await startServices(asked.length > 0 ? asked : undefined);
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'];
  try {
    if (command === undefined) {
      for (const [name, url] of Object.entries(env)) console.log(`${name}=${url}`);
      // A signal listener alone does not keep a process alive.
      const alive = setInterval(() => {}, 1 << 30);
      await Promise.race(signals.map((signal) => once(process, signal)));
      clearInterval(alive);
      return 0;
    }
    const child = spawn(command, rest, { stdio: 'inherit', env: { ...process.env, ...env } });
    for (const signal of signals) process.on(signal, () => child.kill(signal));
    const [code] = await once(child, 'exit');
    return code ?? 1;
  } finally {
    await stop();
  }
}

if (process.argv[1] && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  process.exitCode = await main(process.argv.slice(2)).catch((error) => {
    console.error(error.message);
    return 1;
  });
}
