import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { generateKey } from 'mcp-valise/seal';
import { work } from './places.ts';

/** A server that runs, and a way to end it. */
export interface Started {
  readonly url: URL;
  stop(): Promise<void>;
}

/** Starts a program that listens on the port in PORT, and waits until it does. */
export async function start(
  command: string,
  args: readonly string[],
  { cwd = `${work}examples`, env = {}, path = '/mcp', port = 0 } = {},
): Promise<Started> {
  const at = port || (await freePort());
  const child = spawn(command, args, {
    cwd,
    env: { ...process.env, VALISE_KEYS: generateKey(), ...env, PORT: String(at) },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  });
  let said = '';
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => {
      said = (said + text).slice(-8_000);
    });
  child.on('error', ({ message }) => {
    said += message;
  });
  const stop = () => end(child);
  const deadline = Date.now() + 60_000;
  // Somebody else may have taken the port in the meantime, so that it answers though the program has ended.
  while (!(await listens(at)) || child.exitCode !== null) {
    if (child.exitCode !== null || Date.now() > deadline) {
      await stop();
      throw new Error(`${[command, ...args].join(' ')} does not listen. It said:\n${said}`);
    }
    await sleep(50);
  }
  return { url: new URL(`http://127.0.0.1:${at}${path}`), stop };
}

/** Runs a program to its end; fails with what it said. */
export async function runToEnd(
  command: string,
  args: readonly string[],
  cwd: string,
  env = {},
): Promise<string> {
  const child = spawn(command, args, {
    cwd,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let said = '';
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => {
      said += text;
    });
  const [code] = await once(child, 'close');
  if (code !== 0)
    throw new Error(`${[command, ...args].join(' ')} ended with code ${code}. It said:\n${said}`);
  return said;
}

/** Ends the program and what it has started. */
async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return;
  const closed = once(child, 'close');
  process.kill(-child.pid, 'SIGKILL');
  await closed;
}

async function listens(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1');
  try {
    await once(socket, 'connect');
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  return typeof address === 'object' && address ? address.port : 0;
}
