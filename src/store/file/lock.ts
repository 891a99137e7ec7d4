import { randomBytes } from 'node:crypto';
import { lstatSync, readFileSync, readlinkSync, symlinkSync, writeFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { isRunning, ownProcess } from '../kit/process.ts';
import { busyError, errnoOf, fsError, removeFile } from '../private-file.ts';

/** How long a lock of another machine (or container) is respected, because its processes cannot be checked. */
const FOREIGN_SECONDS = 30;
const PATIENCE_SECONDS = 15;

/** A short-term lock across processes: a file next to the data it protects. */
export interface FileLock {
  /** Identifies the holder, for file names that only one holder uses. */
  readonly nonce: string;
  /** Waits for the lock. Fails with `store-busy` if it cannot be acquired. */
  acquire(): Promise<void>;
  /** Like `acquire`, but blocking. Used while opening. */
  acquireSync(): void;
  /** Whether this process still holds the lock: another machine may have considered it abandoned. */
  held(): boolean;
  release(): void;
}

export interface FileLockOptions {
  /** Called with the nonce of a holder that has died. */
  readonly abandoned?: (nonce: string) => void;
  /** How many seconds to wait for the lock. */
  readonly patience?: number;
}

/**
 * Creates a lock at `path`. The lock contains its holder (a dangling symbolic link, created with its text atomically),
 * so that the lock of a dead process is recognized and removed.
 */
export function fileLock(
  path: string,
  { abandoned = () => {}, patience = PATIENCE_SECONDS }: FileLockOptions = {},
): FileLock {
  const nonce = randomBytes(6).toString('hex');
  const { pid, started, host } = ownProcess();
  const me = `${pid}.${started}.${host}.${nonce}`;

  /** Returns the current holder, or undefined if this process acquired the lock. */
  const attempt = (): string | undefined => {
    if (make(path, me)) return undefined;
    const holder = read(path);
    if (holder !== undefined && isGone(holder, path)) takeAway(path, holder, me, abandoned);
    return holder ?? '';
  };
  const giveUp = (holder: string) => {
    const [pid = '?'] = holder.split('.');
    return busyError(
      path.replace(/\.lock$/, ''),
      `process ${pid}`,
      `Wait for it, or remove ${path} if it hangs.`,
    );
  };

  return {
    nonce,
    async acquire() {
      const end = performance.now() + patience * 1000;
      for (let tries = 0; ; tries++) {
        const holder = attempt();
        if (holder === undefined) return;
        if (performance.now() > end) throw giveUp(holder);
        await pause(1 + Math.random() * Math.min(20, tries));
      }
    },
    acquireSync() {
      const end = performance.now() + patience * 1000;
      for (;;) {
        const holder = attempt();
        if (holder === undefined) return;
        if (performance.now() > end) throw giveUp(holder);
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1 + Math.random() * 5);
      }
    },
    held: () => read(path) === me,
    release: () => {
      if (read(path) === me) removeFile(path);
    },
  };
}

function make(path: string, text: string): boolean {
  try {
    symlinkSync(text, path);
    return true;
  } catch (error) {
    switch (errnoOf(error)) {
      case 'EEXIST':
        return false;
      case 'EPERM':
      case 'ENOSYS':
      case 'ENOTSUP':
      case 'EOPNOTSUPP':
        return makeFile(path, text);
      default:
        throw fsError(error, path, 'write');
    }
  }
}

/** Creates a small file instead if links are not available (Windows without the permission to create them, some drives). */
function makeFile(path: string, text: string): boolean {
  try {
    writeFileSync(path, text, { flag: 'wx', mode: 0o600 });
    return true;
  } catch (error) {
    if (errnoOf(error) === 'EEXIST') return false;
    throw fsError(error, path, 'write');
  }
}

function read(path: string): string | undefined {
  try {
    return readlinkSync(path);
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return undefined;
    try {
      return readFileSync(path, 'utf8');
    } catch {
      return undefined;
    }
  }
}

function isGone(holder: string, path: string): boolean {
  const [pid, started = '0', host = ''] = holder.split('.');
  return !(isRunning({ host, pid: Number(pid), started }) ?? ageOf(path) <= FOREIGN_SECONDS);
}

function ageOf(path: string): number {
  const stats = lstatSync(path, { throwIfNoEntry: false });
  return stats ? (Date.now() - stats.mtimeMs) / 1000 : 0;
}

/**
 * Removes the lock of a dead holder. Only one process does so at a time: between detecting that a lock is dead and
 * removing it, another process could have done both, and the removed lock would be a live one.
 */
function takeAway(path: string, holder: string, me: string, abandoned: (nonce: string) => void): void {
  const gate = `${path}.break`;
  if (!make(gate, me)) {
    const other = read(gate);
    if (other !== undefined && isGone(other, gate)) removeFile(gate);
    return;
  }
  try {
    if (read(path) !== holder) return;
    abandoned(holder.split('.')[3] ?? '');
    removeFile(path);
  } finally {
    removeFile(gate);
  }
}
