import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { answers, launch, onFreePort, temporaryFolder } from './daemon.mjs';
import { need, unprivileged } from './install.mjs';
import { withAddresses } from './nginx.mjs';

/**
 * Starts a private HAProxy with the configuration of `examples/haproxy.cfg`, in front of three `upstreams` (`host:port`).
 */
export async function startHaproxy({ upstreams }) {
  const command = need('haproxy', 'haproxy');
  const user = unprivileged('haproxy', 'nobody');
  return onFreePort(async (port) => {
    const dir = temporaryFolder('haproxy', user);
    const file = join(dir, 'haproxy.cfg');
    const text = readFileSync(new URL('../../examples/haproxy.cfg', import.meta.url), 'utf8');
    writeFileSync(file, withAddresses(text, port, upstreams));
    return launch({
      name: 'haproxy',
      dir,
      port,
      url: `http://127.0.0.1:${port}`,
      command,
      args: ['-db', '-f', file],
      user,
      halt: 'SIGTERM',
      ready: () => answers(port, 'GET / HTTP/1.0\r\n\r\n', /^HTTP/),
    });
  });
}
