import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { answers, launch, onFreePort, temporaryFolder } from './daemon.mjs';
import { need, unprivileged } from './install.mjs';

/** Starts a private Prometheus that scrapes `target` (`host:port`) four times a second. */
export async function startPrometheus({ target }) {
  const command = need('prometheus', 'prometheus');
  const user = unprivileged('prometheus', 'nobody');
  return onFreePort(async (port) => {
    const dir = temporaryFolder('prometheus', user);
    const file = join(dir, 'prometheus.yml');
    const jobs = `[{ job_name: collector, static_configs: [{ targets: ['${target}'] }] }]`;
    writeFileSync(file, `global: { scrape_interval: 250ms }\nscrape_configs: ${jobs}\n`);
    return launch({
      name: 'prometheus',
      dir,
      port,
      url: `http://127.0.0.1:${port}`,
      command,
      args: [
        `--config.file=${file}`,
        `--storage.tsdb.path=${join(dir, 'data')}`,
        `--web.listen-address=127.0.0.1:${port}`,
      ],
      user,
      halt: 'SIGTERM',
      ready: () => answers(port, 'GET /-/ready HTTP/1.0\r\n\r\n', /^HTTP\S* 200/),
    });
  });
}
