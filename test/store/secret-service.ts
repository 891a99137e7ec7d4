import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { keychainProblem } from '../../src/store/keychain.ts';
import { noServices } from '../services.ts';

/** A running Secret Service, with its own bus and its own home. */
export interface SecretService {
  stop(): Promise<void>;
}

/**
 * Starts gnome-keyring on a bus of its own and makes it the keychain of this process and its children.
 * Undefined, and said aloud, where that cannot be done.
 */
export async function startSecretService(): Promise<SecretService | undefined> {
  if (process.platform !== 'linux' || noServices) return skipped('there are to be no other programs');
  const home = mkdtempSync(join(tmpdir(), 'valise-keyring-'));
  const runtime = join(home, 'run');
  mkdirSync(runtime, { mode: 0o700 });
  const before = { ...process.env };
  const children: ChildProcess[] = [];
  const stop = async () => {
    for (const child of children.reverse()) await end(child);
    for (const name of ['HOME', 'XDG_DATA_HOME', 'XDG_RUNTIME_DIR', 'DBUS_SESSION_BUS_ADDRESS']) {
      if (before[name] === undefined) delete process.env[name];
      else process.env[name] = before[name];
    }
    rmSync(home, { recursive: true, force: true });
  };
  try {
    Object.assign(process.env, { HOME: home, XDG_DATA_HOME: join(home, 'data'), XDG_RUNTIME_DIR: runtime });
    const bus = await start(children, 'dbus-daemon', [
      '--session',
      '--nofork',
      '--nosyslog',
      '--print-address=1',
    ]);
    const [address] = (await once(bus.stdout as NodeJS.ReadableStream, 'data')) as [Buffer];
    process.env.DBUS_SESSION_BUS_ADDRESS = address.toString().trim();
    const keyring = await start(children, 'gnome-keyring-daemon', [
      '--foreground',
      '--unlock',
      '--components=secrets',
    ]);
    keyring.stdin?.end('\n');
    const limit = performance.now() + 15_000;
    for (;;) {
      const problem = await keychainProblem('valise-probe');
      if (!problem) return { stop };
      if (performance.now() > limit) throw problem;
    }
  } catch (error) {
    await stop();
    return skipped((error as Error).message);
  }
}

async function start(children: ChildProcess[], command: string, args: string[]): Promise<ChildProcess> {
  const child = spawn(command, args, { stdio: ['pipe', 'pipe', 'ignore'] });
  await once(child, 'spawn');
  children.push(child);
  return child;
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, 'exit');
  child.kill();
  await ended;
}

function skipped(why: string): undefined {
  process.stderr.write(`SKIPPED without a Secret Service (${why}): tests of the keychain\n`);
  return undefined;
}
