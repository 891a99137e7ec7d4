import { randomBytes } from 'node:crypto';
import { lstatSync, readFileSync, readlinkSync, symlinkSync, writeFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { busyError, errnoOf, fsError, removeFile } from '../fs-error.ts';
import { isRunning, ownProcess } from '../kit/process.ts';

/** How long a lock of another machine (or container), whose processes cannot be asked for, is believed. */
const FOREIGN_SECONDS = 30;
const PATIENCE_SECONDS = 15;

/** A lock across processes, for moments: one file beside what it protects. */
export interface FileLock {
  /** Names the holder: for names of files that only one holder uses. */
  readonly nonce: string;
  /** Waits for the lock. Fails with `store-busy` where it cannot be had. */
  acquire(): Promise<void>;
  /** As `acquire`, blocking; for the moment of opening. */
  acquireSync(): void;
  /** Whether it is still ours: another machine may have given us up. */
  held(): boolean;
  release(): void;
}

export interface FileLockOptions {
  /** Told the nonce of a holder that has died. */
  readonly abandoned?: (nonce: string) => void;
  /** For how many seconds to wait for the lock. */
  readonly patience?: number;
}

/**
 * Makes a lock at `path`. Its holder is written into it (a link that points nowhere, made with its text in one step), so that the lock of
 * a process that has died is known as such and taken away.
 */
export function fileLock(
  path: string,
  { abandoned = () => {}, patience = PATIENCE_SECONDS }: FileLockOptions = {},
): FileLock {
  const nonce = randomBytes(6).toString('hex');
  const { pid, started, host } = ownProcess();
  const me = `${pid}.${started}.${host}.${nonce}`;

  /** Who holds the lock; undefined where it is ours now. */
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

/** Where there are no links (Windows without the right to make them, some drives), a small file does. */
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
 * Takes a dead holder's lock away. Only one process does so at a time: between seeing that a lock is dead and removing it, another
 * one could have done both, and the lock removed would be a living one.
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
