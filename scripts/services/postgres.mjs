import { execFile, spawnSync } from 'node:child_process';
import { readFileSync, rmSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { launch, onFreePort, temporaryFolder } from './daemon.mjs';
import { need, unprivileged } from './install.mjs';

/**
 * Settings that make it fast and are wrong everywhere except in tests. It listens on loopback, without a socket file.
 * Commits are still written before they are confirmed, so that a server killed in a test has them.
 */
const SETTINGS = {
  listen_addresses: '127.0.0.1',
  unix_socket_directories: '',
  max_connections: '200',
  fsync: 'off',
  full_page_writes: 'off',
};

/** Starts a private PostgreSQL on loopback that accepts every connection without a password. */
export async function startPostgres({ settings = {} } = {}) {
  return launchOn(settings, ({ command, data, dir, env, user }) => {
    const args = ['-D', data, '-U', 'valise', '-A', 'trust', '-E', 'UTF8', '--locale=C.UTF-8', '--no-sync'];
    prepare(join(dirname(command), 'initdb'), args, { dir, env, user });
  });
}

/** Starts a primary and a streaming replica; with `synchronous`, a commit waits until the replica has it. */
export async function startPostgresPair({ synchronous = false } = {}) {
  const primary = await startPostgres(synchronous ? { settings: { synchronous_standby_names: '*' } } : {});
  let tools;
  const replica = await launchOn({}, ({ command, data, dir, env, user }) => {
    const source = `host=127.0.0.1 port=${primary.port} user=valise`;
    const args = ['-d', source, '-D', data, '-R', '-X', 'stream', '-c', 'fast', '--no-sync'];
    prepare(join(dirname(command), 'pg_basebackup'), args, { dir, env, user });
    tools = { command: join(dirname(command), 'pg_ctl'), data, options: { cwd: dir, env, ...user } };
  }).catch(async (error) => {
    await primary.stop();
    throw error;
  });
  return {
    url: `postgres://valise@127.0.0.1:${primary.port},127.0.0.1:${replica.port}/postgres`,
    primary,
    replica,
    promote: async () =>
      void (await promisify(execFile)(tools.command, ['promote', '-D', tools.data], tools.options)),
    stop: async () => void (await Promise.all([primary.stop(), replica.stop()])),
  };
}

/** Starts a server in a new folder, whose data `fill` creates. */
function launchOn(settings, fill) {
  const command = need('postgres', 'postgresql');
  const user = unprivileged('postgres', 'nobody');
  return onFreePort(async (port) => {
    const dir = temporaryFolder('postgres', user);
    const data = join(dir, 'data');
    const env = { HOME: dir, LC_ALL: 'C.UTF-8', TZ: 'UTC' };
    fill({ command, data, dir, env, user });
    return launch({
      name: 'postgres',
      dir,
      port,
      url: `postgres://valise@127.0.0.1:${port}/postgres`,
      command,
      args: [
        '-D',
        data,
        '-p',
        String(port),
        ...Object.entries({ ...SETTINGS, ...settings }).flatMap(([name, value]) => [
          '-c',
          `${name}=${value}`,
        ]),
      ],
      env,
      user,
      halt: 'SIGINT',
      // SIGKILL would make PostgreSQL leave its shared memory behind.
      quit: 'SIGQUIT',
      ready: async () => isReady(data),
    });
  });
}

function prepare(command, args, { dir, env, user }) {
  const { status, stdout, stderr, error } = spawnSync(command, args, {
    cwd: dir,
    env,
    ...user,
    encoding: 'utf8',
  });
  if (status === 0) return;
  rmSync(dir, { recursive: true, force: true });
  throw new Error(`${basename(command)} failed: ${error?.message ?? ''}\n${stdout}\n${stderr}`);
}

/** Whether the server is ready: it writes its status into the last line of its pid file. */
function isReady(data) {
  try {
    return readFileSync(join(data, 'postmaster.pid'), 'utf8').trimEnd().endsWith('ready');
  } catch {
    return false;
  }
}
