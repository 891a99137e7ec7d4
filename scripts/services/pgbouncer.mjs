import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { answers, launch, onFreePort, temporaryFolder } from './daemon.mjs';
import { need, unprivileged } from './install.mjs';

/**
 * Starts a private PgBouncer in transaction mode in front of the server at the URL `postgres`. It has few connections, so
 * that they are shared.
 */
export async function startPgBouncer({ postgres }) {
  const command = need('pgbouncer', 'pgbouncer');
  const user = unprivileged('postgres', 'nobody');
  const { hostname, port: server } = new URL(postgres);
  return onFreePort(async (port) => {
    const dir = temporaryFolder('pgbouncer', user);
    const file = join(dir, 'pgbouncer.ini');
    const lines = [
      '[databases]',
      // With auth_type any, PgBouncer does not pass the client's user on.
      `* = host=${hostname} port=${server} user=valise`,
      '[pgbouncer]',
      'listen_addr = 127.0.0.1',
      `listen_port = ${port}`,
      'unix_socket_dir =',
      'auth_type = any',
      'pool_mode = transaction',
      'default_pool_size = 3',
    ];
    writeFileSync(file, `${lines.join('\n')}\n`);
    return launch({
      name: 'pgbouncer',
      dir,
      port,
      url: `postgres://valise@127.0.0.1:${port}/postgres`,
      command,
      args: [file],
      user,
      halt: 'SIGINT',
      ready: () => answers(port, Buffer.from([0, 0, 0, 8, 4, 0xd2, 0x16, 0x2f]), /^[NS]/),
    });
  });
}
