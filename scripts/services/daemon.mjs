import { fork } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

const KEEPER = fileURLToPath(new URL('./keeper.mjs', import.meta.url));
const PATIENCE = 30_000;

/** Returns a port on 127.0.0.1 that is free right now. */
export async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return port;
}

/** Creates a folder in the system's temporary directory, owned by `user` if given. */
export function temporaryFolder(name, user) {
  const dir = mkdtempSync(join(tmpdir(), `valise-${name}-`));
  if (user) chownSync(dir, user.uid, user.gid);
  return dir;
}

/** Sends `request` to a port on loopback. Resolves to true if the response matches `answer`. */
export function answers(port, request, answer) {
  return new Promise((resolve) => {
    const socket = connect({ port, host: '127.0.0.1' }, () => socket.write(request));
    const done = (value) => {
      socket.destroy();
      resolve(value);
    };
    let text = '';
    socket.setTimeout(1000, () => done(false));
    socket.on('data', (data) => {
      text += data;
      if (answer.test(text)) done(true);
    });
    socket.on('error', () => done(false));
    socket.on('close', () => done(false));
  });
}

/**
 * Runs a server in the foreground under a keeper (see keeper.mjs) and waits until `ready()` is true. The signal `halt` shuts
 * it down cleanly and keeps its data, after `beforeHalt`; `quit` ends it immediately.
 */
export async function launch({
  name,
  dir,
  port,
  url,
  command,
  args,
  env = {},
  user,
  halt = 'SIGTERM',
  quit = 'SIGKILL',
  beforeHalt = async () => {},
  ready,
}) {
  const brief = JSON.stringify({ command, args, dir, env, uid: user?.uid, gid: user?.gid, halt, quit });
  let keeper;
  let gone;

  const service = {
    url,
    port,
    dir,
    /** The server's own process, for tests that kill or freeze it. */
    pid: undefined,

    async start() {
      let failure;
      let exited = false;
      service.pid = undefined;
      keeper = fork(KEEPER, [brief], {
        detached: true,
        execArgv: [],
        stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
      });
      keeper.on('error', (error) => {
        failure = error.message;
      });
      keeper.on('message', ({ pid, error }) => {
        service.pid = pid;
        failure = error;
      });
      gone = new Promise((resolve) => {
        keeper.once('exit', () => {
          exited = true;
          resolve();
        });
      });
      const deadline = Date.now() + PATIENCE;
      while (service.pid === undefined || !(await ready())) {
        if (exited || Date.now() > deadline) {
          const log = tail(dir);
          await service.stop();
          throw new Error(
            `${name} did not start: ${failure ?? (exited ? 'it ended' : 'no answer in time')}\n${log}`,
          );
        }
        await pause(20);
      }
      // A script that forgets to stop its services still exits, and they end with it.
      keeper.unref();
      keeper.channel?.unref();
    },

    /** Shuts the server down cleanly; `start()` finds its data again. */
    async halt() {
      await beforeHalt();
      keeper.ref();
      // Sending to a keeper that has just exited must not fail.
      if (keeper.connected) keeper.send('halt', () => {});
      await gone;
    },

    async restart() {
      await service.halt();
      await service.start();
    },

    /** Ends the server permanently and removes its folder. */
    async stop() {
      keeper.ref();
      if (keeper.connected) keeper.disconnect();
      await gone;
      rmSync(dir, { recursive: true, force: true });
    },
  };
  await service.start();
  return service;
}

/** Calls `attempt(port)` with free ports until one works: another process may take a free port before the server does. */
export async function onFreePort(attempt) {
  for (let round = 1; ; round++) {
    try {
      return await attempt(await freePort());
    } catch (error) {
      if (round === 3 || !/in use/i.test(error.message)) throw error;
    }
  }
}

function tail(dir) {
  try {
    return readFileSync(`${dir}/log`, 'utf8').split('\n').slice(-20).join('\n');
  } catch {
    return '';
  }
}
