import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { keychainProblem } from '../../src/client/oauth/keychain.ts';
import { noServices } from '../services.ts';

/** A running Secret Service, with its own bus and its own home. */
export interface SecretService {
  /** Has it die as soon as somebody asks it something. */
  dieWhenAsked(): Promise<void>;
  stop(): Promise<void>;
}

/**
 * Has a bus of its own start gnome-keyring and makes it the keychain of this process and its children. Where it dies,
 * the bus starts it again for the next who asks, as on a desktop; here with the password given. Undefined, and said
 * aloud, where that cannot be done.
 */
export async function startSecretService(): Promise<SecretService | undefined> {
  if (process.platform !== 'linux' || noServices) return skipped('there are to be no other programs');
  const home = mkdtempSync(join(tmpdir(), 'valise-keyring-'));
  const runtime = join(home, 'run');
  mkdirSync(runtime, { mode: 0o700 });
  const before = { ...process.env };
  const pids = join(home, 'pids');
  const started = () => (existsSync(pids) ? readFileSync(pids, 'utf8').trim().split('\n').map(Number) : []);
  let bus: ChildProcess | undefined;
  const stop = async () => {
    if (bus) await end(bus);
    for (const pid of started()) kill(pid);
    for (const name of ['HOME', 'XDG_DATA_HOME', 'XDG_RUNTIME_DIR', 'DBUS_SESSION_BUS_ADDRESS']) {
      if (before[name] === undefined) delete process.env[name];
      else process.env[name] = before[name];
    }
    rmSync(home, { recursive: true, force: true });
  };
  try {
    Object.assign(process.env, { HOME: home, XDG_DATA_HOME: join(home, 'data'), XDG_RUNTIME_DIR: runtime });
    offer(runtime, join(home, 'serve.sh'), pids);
    const served = spawn('dbus-daemon', ['--session', '--nofork', '--nosyslog', '--print-address=1'], {
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    bus = served;
    await once(served, 'spawn');
    const [address] = (await once(served.stdout, 'data')) as [Buffer];
    process.env.DBUS_SESSION_BUS_ADDRESS = address.toString().trim();
    const limit = performance.now() + 15_000;
    for (;;) {
      const problem = await keychainProblem('valise-probe');
      if (!problem) return { stop, dieWhenAsked: () => dieWhenAsked(started().at(-1) as number, served) };
      if (performance.now() > limit) throw problem;
    }
  } catch (error) {
    await stop();
    return skipped((error as Error).message);
  }
}

/** Tells the bus how to start the service; what stands in the runtime folder goes before what the system has. */
function offer(runtime: string, script: string, pids: string): void {
  const services = join(runtime, 'dbus-1', 'services');
  mkdirSync(services, { recursive: true });
  const name = 'org.freedesktop.secrets';
  writeFileSync(join(services, `${name}.service`), `[D-BUS Service]\nName=${name}\nExec=/bin/sh ${script}\n`);
  const daemon = 'gnome-keyring-daemon --foreground --unlock --components=secrets';
  writeFileSync(script, `echo $$ >> ${pids}\nexec ${daemon} << END\n\nEND\n`);
}

/**
 * It stands still until then, so that it cannot answer; who asks has one more connection with the bus. Done by a process
 * of its own, since the library connects on our main thread. What the bus does for `dbus-send` it does after what it was
 * asked before.
 */
async function dieWhenAsked(pid: number, bus: ChildProcess): Promise<void> {
  const script = `
    connections() { now=$(ls /proc/${bus.pid}/fd | wc -l); }
    kill -STOP ${pid}
    connections
    before=$now
    echo ready
    until [ "$now" -gt "$before" ]; do before=$now; connections; done
    dbus-send --session --print-reply --dest=org.freedesktop.DBus / org.freedesktop.DBus.GetId
    kill -KILL ${pid}`;
  const executioner = spawn('sh', ['-c', script], { stdio: ['ignore', 'pipe', 'inherit'] });
  await once(executioner.stdout, 'data');
  executioner.stdout.resume();
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, 'exit');
  child.kill();
  await ended;
}

function kill(pid: number): void {
  try {
    process.kill(pid);
  } catch {
    // It has ended with its bus.
  }
}

function skipped(why: string): undefined {
  process.stderr.write(`SKIPPED without a Secret Service (${why}): tests of the keychain\n`);
  return undefined;
}
