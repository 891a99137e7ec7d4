import { spawnSync } from 'node:child_process';
import { chmodSync, chownSync, mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { tsx } from './places.ts';

const child = fileURLToPath(new URL('./child.ts', import.meta.url));
const root = fileURLToPath(new URL('../..', import.meta.url));

/** What came of a step. */
export interface Outcome {
  readonly did: string;
  readonly result?: unknown;
  readonly code?: string;
  readonly message?: string;
}

type Steps = readonly (readonly unknown[])[];

function outcomes(command: string, args: readonly string[], options: { uid?: number } = {}): Outcome[] {
  const { stdout, stderr, status } = spawnSync(command, args, { cwd: root, encoding: 'utf8', ...options });
  if (status !== 0) throw new Error(`${command} ended with ${status}: ${stderr}`);
  return stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Outcome);
}

/** Does the steps as a user who is not root, for whom the rights on files count; `folder` must be theirs. */
export function asUser(steps: Steps, { node = process.execPath, flags = [] as string[] } = {}): Outcome[] {
  const options = process.getuid?.() === 0 ? { uid: NOBODY } : {};
  return outcomes(node, [...tsx, ...flags, child, JSON.stringify(steps)], options);
}

const NOBODY = 65_534;

/** A folder that belongs to the user of {@link asUser}. */
export function userFolder(): { folder: string; own(path: string, mode: number): void; remove(): void } {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'valise-user-')));
  const own = (path: string, mode: number) => {
    chmodSync(path, mode);
    if (process.getuid?.() === 0) chownSync(path, NOBODY, NOBODY);
  };
  own(folder, 0o700);
  return {
    folder,
    own,
    remove: () => {
      chmodSync(folder, 0o700);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

const namespace = process.getuid?.() === 0 ? ['--mount'] : ['--mount', '--map-root-user'];

/** Whether this machine lets us have a small disk of our own; says so where not. */
export function canMakeDisk(): boolean {
  const able =
    process.platform === 'linux' &&
    spawnSync('unshare', [...namespace, 'mount', '-t', 'tmpfs', 'tmpfs', '/mnt']).status === 0;
  if (!able) process.stderr.write('SKIPPED without the right to mount: tests of a full disk on SQLite\n');
  return able;
}

/** Does the steps with a disk of `size` at `folder`, which is there for that process alone. */
export function onSmallDisk(folder: string, size: string, steps: Steps): Outcome[] {
  const mount = `mount -t tmpfs -o size=${size},mode=700 tmpfs "$0" && exec "$@"`;
  const node = [process.execPath, ...tsx, child, JSON.stringify(steps)];
  return outcomes('unshare', [...namespace, 'sh', '-c', mount, folder, ...node]);
}

/** Does the steps where no file can grow over `kilobytes`: as full as a disk can be for somebody who may not make one. */
export function withSmallFiles(kilobytes: number, steps: Steps): Outcome[] {
  const limit = `ulimit -f ${kilobytes} && exec "$@"`;
  return outcomes('bash', ['-c', limit, 'bash', process.execPath, ...tsx, child, JSON.stringify(steps)]);
}
