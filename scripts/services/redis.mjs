import { setTimeout as pause } from 'node:timers/promises';
import { answers, freePort, launch, onFreePort, temporaryFolder } from './daemon.mjs';
import { need } from './install.mjs';

/**
 * A private redis-server on loopback. It writes nothing to disk while it runs, but `restart()` keeps the data.
 * With `cluster` it is a Redis Cluster of one node that holds all slots, as strict about them as a large one.
 */
export async function startRedis({ cluster = false, args = [] } = {}) {
  const command = need('redis-server', 'redis-server');
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
    if (cluster) {
      own.push('--cluster-enabled', 'yes', '--cluster-announce-ip', '127.0.0.1');
      own.push('--cluster-port', String(await freePort()));
    }
    const service = await launch({
      name: 'redis-server',
      dir,
      port,
      url: `redis://127.0.0.1:${port}`,
      command,
      args: [...own, ...args],
      // Not SIGTERM alone: it would lose what was written since the last save.
      beforeHalt: () => answers(port, 'SHUTDOWN SAVE\r\n', /-ERR/),
      ready: () => answers(port, 'PING\r\n', /PONG|NOAUTH/),
    });
    if (cluster) {
      await answers(port, 'CLUSTER ADDSLOTSRANGE 0 16383\r\n', /OK/);
      while (!(await answers(port, 'CLUSTER INFO\r\n', /cluster_state:ok/))) await pause(20);
    }
    return service;
  });
}
