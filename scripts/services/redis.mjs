import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';
import { answers, freePort, launch, onFreePort, temporaryFolder } from './daemon.mjs';
import { need } from './install.mjs';

/** Whether Valkey is installed, or can be installed now. */
export function hasValkey() {
  try {
    need('valkey-server', 'valkey-server');
    return true;
  } catch {
    return false;
  }
}

/**
 * Starts a private redis-server on loopback. It writes nothing to disk while it runs, but `restart()` keeps the data. With
 * `cluster`, it is a Redis Cluster of one node that holds all slots, as strict about them as a large one. With `disk`, its
 * folder is a disk of that size, which only it sees: others find it in `/proc/PID/root`. `engine` is 'redis' or 'valkey'.
 */
export async function startRedis({ cluster = false, args = [], disk, engine } = {}) {
  const service = await startNode({ isClustered: cluster, args, disk, engine });
  if (!cluster) return service;
  await answers(service.port, 'CLUSTER ADDSLOTSRANGE 0 16383\r\n', /OK/);
  while (!(await answers(service.port, 'CLUSTER INFO\r\n', /cluster_state:ok/))) await pause(20);
  return service;
}

/** Starts a Redis Cluster of some primaries, each with `replicas`; it notices a dead node after two seconds. */
export async function startRedisCluster({ masters = 3, replicas = 0, args = [], engine } = {}) {
  const own = ['--cluster-node-timeout', '2000', ...args];
  const nodes = await Promise.all(
    Array.from({ length: masters * (1 + replicas) }, () =>
      startNode({ isClustered: true, args: own, engine }),
    ),
  );
  const addresses = nodes.map(({ port }) => `127.0.0.1:${port}`);
  const create = [
    '--cluster',
    'create',
    ...addresses,
    '--cluster-replicas',
    String(replicas),
    '--cluster-yes',
  ];
  await promisify(execFile)(need('redis-cli', 'redis-tools'), create);
  for (const { port } of nodes)
    while (!(await answers(port, 'CLUSTER INFO\r\n', /cluster_state:ok/))) await pause(20);
  return {
    url: `redis+cluster://${addresses.join(',')}`,
    nodes,
    stop: async () => void (await Promise.all(nodes.map((node) => node.stop()))),
  };
}

/** Starts a primary with replicas, and three Sentinels that replace it after a second without a response. */
export async function startRedisSentinel({ replicas = 1, engine } = {}) {
  const primary = await startNode({ engine });
  const args = ['--replicaof', '127.0.0.1', String(primary.port)];
  const nodes = [
    primary,
    ...(await Promise.all(Array.from({ length: replicas }, () => startNode({ args, engine })))),
  ];
  const sentinels = await Promise.all(Array.from({ length: 3 }, () => startSentinel(primary.port, engine)));
  for (const { port } of sentinels) {
    const known = new RegExp(`slaves=${replicas},sentinels=3`);
    while (!(await answers(port, 'INFO sentinel\r\n', known))) await pause(50);
  }
  const addresses = sentinels.map(({ port }) => `127.0.0.1:${port}`);
  return {
    url: `redis+sentinel://${addresses.join(',')}/primary`,
    nodes,
    stop: async () => void (await Promise.all([...sentinels, ...nodes].map((service) => service.stop()))),
  };
}

function startSentinel(primary, engine) {
  const command = serverOf(engine);
  return onFreePort(async (port) => {
    const dir = temporaryFolder('sentinel');
    const config = join(dir, 'sentinel.conf');
    const lines = [
      `port ${port}`,
      'bind 127.0.0.1',
      `dir ${dir}`,
      `sentinel monitor primary 127.0.0.1 ${primary} 2`,
      'sentinel down-after-milliseconds primary 1000',
      'sentinel failover-timeout primary 5000',
    ];
    writeFileSync(config, `${lines.join('\n')}\n`);
    return launch({
      name: 'redis-sentinel',
      dir,
      port,
      url: `redis://127.0.0.1:${port}`,
      command,
      args: [config, '--sentinel'],
      ready: () => answers(port, 'PING\r\n', /PONG/),
    });
  });
}

function serverOf(engine = 'redis') {
  return need(`${engine}-server`, `${engine}-server`);
}

function startNode({ isClustered = false, args = [], disk, engine }) {
  const command = serverOf(engine);
  return onFreePort(async (port) => {
    const dir = temporaryFolder('redis');
    const own = [
      '--port',
      String(port),
      '--bind',
      '127.0.0.1',
      '--dir',
      dir,
      '--save',
      '',
      '--appendonly',
      'no',
      // Replicas need not wait for others to join them.
      '--repl-diskless-sync-delay',
      '0',
    ];
    if (isClustered) {
      own.push('--cluster-enabled', 'yes', '--cluster-announce-ip', '127.0.0.1');
      own.push('--cluster-port', String(await freePort()));
    }
    return launch({
      name: 'redis-server',
      dir,
      port,
      url: `redis://127.0.0.1:${port}`,
      ...onDisk(disk, dir, command, [...own, ...args]),
      // SIGTERM alone would lose what was written since the last save.
      beforeHalt: () => answers(port, 'SHUTDOWN SAVE\r\n', /-ERR/),
      ready: () => answers(port, 'PING\r\n', /PONG|NOAUTH/),
    });
  });
}

/** Returns the command that runs a program with a small disk at `dir`. */
function onDisk(size, dir, command, args) {
  if (size === undefined) return { command, args };
  const mount = `mount -t tmpfs -o size=${size} tmpfs "$0" && cd "$0" && exec "$@"`;
  return { command: 'unshare', args: ['--mount', 'sh', '-c', mount, dir, command, ...args] };
}
