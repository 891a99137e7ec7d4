import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { Redis } from 'ioredis';
import pg from 'pg';
import { describe, expect, it, onTestFinished } from 'vitest';
import { noServices, type Service, startNginx, startPostgres, startRedis } from '../services.ts';
import { because } from '../skip.ts';

const script = fileURLToPath(new URL('../../scripts/services.mjs', import.meta.url));

const alive = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
};

/** Runs a program that prints one line of JSON and then lives on. */
async function program(
  source: string,
): Promise<{ child: ChildProcess; said: { pid: number; dir: string }[] }> {
  const text = `import * as services from ${JSON.stringify(script)}; ${source}; setInterval(() => {}, 1000);`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', text], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  const [line] = await once(createInterface(child.stdout!), 'line');
  return { child, said: JSON.parse(line) };
}

async function command(args: string[], env: NodeJS.ProcessEnv = {}): Promise<{ code: number; out: string }> {
  const child = spawn(process.execPath, [script, ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, VALISE_TEST_REDIS: '', VALISE_TEST_POSTGRES: '', ...env },
  });
  let out = '';
  child.stdout.setEncoding('utf8').on('data', (text) => {
    out += text;
  });
  const [code] = await once(child, 'close');
  return { code, out };
}

const kept = (service: Service): Service => {
  onTestFinished(() => service.stop());
  return service;
};

describe.skipIf(noServices)('private servers', because('needs servers'), () => {
  it.each(['SIGKILL', 'SIGTERM', 'SIGINT'] as const)(
    'Private servers end with the process that started them, also by %s',
    async (signal) => {
      const { child, said } = await program(`
      const all = await Promise.all([services.startRedis(), services.startPostgres(), services.startNginx({ upstreams: ['127.0.0.1:9'] })]);
      console.log(JSON.stringify(all.map(({ pid, dir }) => ({ pid, dir }))))`);
      expect(said.map(({ pid, dir }) => alive(pid) && existsSync(dir))).toEqual([true, true, true]);
      child.kill(signal);
      await expect
        .poll(() => said.some(({ pid, dir }) => alive(pid) || existsSync(dir)), { timeout: 20_000 })
        .toBe(false);
    },
  );

  it('Private servers end with a process that did not stop them, and do not keep it alive', async () => {
    const { code, out } = await new Promise<{ code: number; out: string }>((resolve) => {
      const text = `import { startRedis } from ${JSON.stringify(script)}; console.log((await startRedis()).pid)`;
      const child = spawn(process.execPath, ['--input-type=module', '-e', text]);
      let out = '';
      child.stdout.on('data', (data) => {
        out += data;
      });
      child.on('close', (code) => resolve({ code: code ?? -1, out }));
    });
    expect(code).toBe(0);
    await expect.poll(() => alive(Number(out)), { timeout: 20_000 }).toBe(false);
  });

  it('Private servers keep their data and their address when they restart', async () => {
    const [redis, postgres] = [kept(await startRedis()), kept(await startPostgres())];
    const client = new Redis(redis.url);
    client.on('error', () => {});
    onTestFinished(() => client.disconnect());
    const query = async (text: string) => {
      const one = new pg.Client(postgres.url);
      await one.connect();
      const { rows } = await one.query(text);
      await one.end();
      return rows;
    };
    await client.set('a', 'b');
    await query('CREATE TABLE a AS SELECT 1 AS b');
    const pids = [redis.pid, postgres.pid];
    await Promise.all([redis.restart(), postgres.restart()]);
    expect([redis.pid, postgres.pid]).not.toEqual(pids);
    expect(await client.get('a')).toBe('b');
    expect(await query('SELECT * FROM a')).toEqual([{ b: 1 }]);
  });

  it('Private servers listen on loopback only', async () => {
    const redis = kept(await startRedis());
    const postgres = kept(await startPostgres());
    const client = new Redis(redis.url);
    onTestFinished(() => client.disconnect());
    expect(await client.config('GET', 'bind')).toEqual(['bind', '127.0.0.1']);
    const one = new pg.Client(postgres.url);
    await one.connect();
    expect((await one.query('SHOW listen_addresses')).rows).toEqual([{ listen_addresses: '127.0.0.1' }]);
    expect((await one.query('SHOW unix_socket_directories')).rows).toEqual([{ unix_socket_directories: '' }]);
    await one.end();
  });

  it('Private servers say why they did not start', async () => {
    await expect(startRedis({ args: ['--no-such-setting', 'x'] })).rejects.toThrow(
      /redis-server did not start[\s\S]*no-such-setting/,
    );
  });

  it('A command gets the private servers, and its exit code counts', async () => {
    const { code, out } = await command([
      'redis',
      '--',
      'sh',
      '-c',
      'echo "$VALISE_TEST_REDIS|$VALISE_TEST_POSTGRES"; exit 7',
    ]);
    expect(code).toBe(7);
    expect(out).toMatch(/^redis:\/\/127\.0\.0\.1:\d+\|\n$/);
  });

  it('Private servers are not started if the environment names others', async () => {
    const env = { VALISE_TEST_REDIS: 'redis://named:1', VALISE_TEST_POSTGRES: 'postgres://named:2' };
    const { out } = await command(['--', 'sh', '-c', 'echo "$VALISE_TEST_REDIS $VALISE_TEST_POSTGRES"'], env);
    expect(out).toBe('redis://named:1 postgres://named:2\n');
  });

  it('The services command rejects unknown server names', async () => {
    expect((await command(['mysql'])).code).toBe(2);
  });
});

describe.skipIf(noServices)('the balancer', because('needs servers'), () => {
  const upstream = async (name: string): Promise<string> => {
    const server: Server = createServer((request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write(`data: ${name}\n\n`);
      // The rest comes only once the client has shown that the beginning has arrived.
      if (request.url === '/stream') request.on('end', () => response.end('data: end\n\n')).resume();
      else response.end();
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    onTestFinished(() => {
      server.closeAllConnections();
      server.close();
    });
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  };

  it('The balancer uses each instance in turn', async () => {
    const nginx = kept(await startNginx({ upstreams: [await upstream('one'), await upstream('two')] }));
    const heard: string[] = [];
    for (let request = 0; request < 6; request++) heard.push(await (await fetch(nginx.url)).text());
    expect(new Set(heard.slice(0, 2)).size).toBe(2);
    expect(heard).toEqual([...heard.slice(0, 2), ...heard.slice(0, 2), ...heard.slice(0, 2)]);
  });

  it('The balancer forwards an event and a request body while the rest is still to come', async () => {
    const nginx = kept(await startNginx({ upstreams: [await upstream('one')] }));
    let finish: () => void = () => {};
    const body = new ReadableStream({
      start(controller) {
        controller.enqueue(new TextEncoder().encode('half'));
        finish = () => controller.close();
      },
    });
    const response = await fetch(`${nginx.url}/stream`, {
      method: 'POST',
      body,
      duplex: 'half',
    } as RequestInit);
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    expect((await reader.read()).value).toBe('data: one\n\n');
    finish();
    expect((await reader.read()).value).toBe('data: end\n\n');
  });
});
