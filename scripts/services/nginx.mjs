import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { answers, launch, onFreePort, temporaryFolder } from './daemon.mjs';
import { need, unprivileged } from './install.mjs';

/** Puts real addresses into a configuration from `examples/`, which listens on 8080 and names three instances. */
export function withAddresses(text, port, upstreams) {
  let next = 0;
  return text
    .replace(/^(\s*)(listen|bind) :?8080/m, `$1$2 127.0.0.1:${port}`)
    .replaceAll(/10\.0\.0\.1\d:3000/g, () => upstreams[next++]);
}

/** Starts a private nginx with the configuration of `examples/nginx.conf`, in front of three `upstreams` (`host:port`). */
export async function startDocumentedNginx({ upstreams }) {
  const text = readFileSync(new URL('../../examples/nginx.conf', import.meta.url), 'utf8');
  return launchWith((port) => withAddresses(text, port, upstreams));
}

/**
 * Starts a private nginx on loopback that sends each request to the next of `upstreams` (URLs or `host:port`) and does not
 * buffer streams. The response header `x-upstream` names the instance that answered. With `failover`, a request whose
 * instance is down goes to the next one, which is nginx's default.
 */
export async function startNginx({ upstreams, failover = false }) {
  const hosts = upstreams.map((upstream) => (upstream.includes('://') ? new URL(upstream).host : upstream));
  return launchWith((port) => configuration({ port, hosts, failover }));
}

function launchWith(configure) {
  const command = need('nginx', 'nginx-light');
  const user = unprivileged('www-data', 'nobody');
  return onFreePort(async (port) => {
    const dir = temporaryFolder('nginx', user);
    const file = join(dir, 'nginx.conf');
    writeFileSync(file, surroundings(dir, configure(port)));
    return launch({
      name: 'nginx',
      dir,
      port,
      url: `http://127.0.0.1:${port}`,
      command,
      args: ['-p', dir, '-c', file, '-e', join(dir, 'error.log')],
      user,
      halt: 'SIGQUIT',
      ready: () => answers(port, 'GET /.balancer HTTP/1.0\r\n\r\n', /^HTTP/),
    });
  });
}

/** Uses one process, so that the rotation is strict. */
function surroundings(dir, sites) {
  return `
daemon off;
master_process off;
pid ${dir}/pid;
error_log ${dir}/error.log notice;
events { worker_connections 1024; }
http {
  access_log off;
  client_body_temp_path ${dir}/body;
  proxy_temp_path ${dir}/proxy;
  fastcgi_temp_path ${dir}/fastcgi;
  uwsgi_temp_path ${dir}/uwsgi;
  scgi_temp_path ${dir}/scgi;
${sites}
}
`;
}

/** Does not retry elsewhere by default, so that a test sees each instance as it is. */
function configuration({ port, hosts, failover }) {
  return `
  client_max_body_size 16m;
  upstream instances {
${hosts.map((host) => `    server ${host} max_fails=0;`).join('\n')}
    keepalive 16;
  }
  server {
    listen 127.0.0.1:${port};
    location = /.balancer { return 204; }
    location / {
      proxy_pass http://instances;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Host $http_host;
      proxy_set_header X-Forwarded-For $remote_addr;
      proxy_next_upstream ${failover ? 'error' : 'off'};
      proxy_buffering off;
      proxy_request_buffering off;
      proxy_cache off;
      proxy_read_timeout 1h;
      proxy_send_timeout 1h;
      add_header X-Upstream $upstream_addr always;
    }
  }`;
}
