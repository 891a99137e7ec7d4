import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cp, mkdir, mkdtemp, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { onTestFinished } from 'vitest';
import cli from '../../cli/package.json' with { type: 'json' };
import pkg from '../../package.json' with { type: 'json' };

const ROOT = fileURLToPath(new URL('../../', import.meta.url));

/** The launcher that people run. */
export const VALISE = join(ROOT, 'bin/valise.js');

/** What a run of the command left behind. */
export interface Ran {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs `valise …` as a person would, and waits for its end. */
export async function valise(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
  launcher = VALISE,
  cwd?: string,
): Promise<Ran> {
  const child = start(args, env, launcher, cwd);
  let stdout = '';
  let stderr = '';
  child.stdout?.on('data', (chunk) => (stdout += chunk));
  child.stderr?.on('data', (chunk) => (stderr += chunk));
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, stdout, stderr };
}

/** Runs `valise … --json` and reads its one line. */
export async function valiseJson<T = Record<string, unknown>>(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
  launcher = VALISE,
): Promise<T> {
  const { stdout, stderr } = await valise([...args, '--json'], env, launcher);
  try {
    return JSON.parse(stdout) as T;
  } catch {
    throw new Error(`not one line of JSON: ${JSON.stringify(stdout)} ${stderr}`);
  }
}

/** Starts an example over HTTP; it ends with the test. Resolves to its URL on loopback, and its port. */
export async function serveExample(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
  launcher = VALISE,
): Promise<{ readonly url: string; readonly port: string; readonly child: ChildProcess }> {
  const child = start(['example', ...args, '--http', '0'], env, launcher);
  onTestFinished(async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const gone = once(child, 'close');
    child.kill('SIGTERM');
    await gone;
  });
  let said = '';
  const url = await new Promise<string>((resolve, reject) => {
    const listen = (chunk: unknown): void => {
      said += String(chunk);
      const found = /listening on (http:\S+)/.exec(said)?.[1];
      if (found) resolve(found);
    };
    child.stdout?.on('data', listen);
    child.stderr?.on('data', listen);
    child.once('close', () => reject(new Error(`the example ended: ${said}`)));
  });
  return { url, port: new URL(url).port, child };
}

/** A folder for one test. */
export async function folder(): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), 'valise-cli-'));
  onTestFinished(() => rm(path, { recursive: true, force: true }));
  return path;
}

/** The launcher of a project that has both packages, and beside them only these of its optional peers. */
export async function launcherBeside(...peers: readonly string[]): Promise<string> {
  const modules = join(await folder(), 'node_modules');
  const own = join(modules, 'mcp-valise');
  for (const part of ['bin', 'dist', 'package.json']) {
    await cp(join(ROOT, part), join(own, part), { recursive: true });
    await cp(join(ROOT, 'cli', part), join(modules, 'mcp-valise-cli', part), { recursive: true });
  }
  const { 'mcp-valise': _, ...others } = cli.dependencies;
  for (const name of [...Object.keys({ ...pkg.dependencies, ...others }), ...peers]) {
    await mkdir(dirname(join(modules, name)), { recursive: true });
    await symlink(join(ROOT, 'node_modules', name), join(modules, name));
  }
  return join(own, 'bin/valise.js');
}

function start(
  args: readonly string[],
  env: Readonly<Record<string, string>>,
  launcher: string,
  cwd?: string,
): ChildProcess {
  const { VALISE_KEYS: _keys, VALISE_CLIENT_KEYS: _own, VALISE_STORE: _store, ...inherited } = process.env;
  return spawn(process.execPath, [launcher, ...args], {
    cwd,
    env: { ...inherited, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
}
