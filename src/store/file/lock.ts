import { createHash, randomBytes } from 'node:crypto';
import { lstatSync, readFileSync, readlinkSync, symlinkSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { setTimeout as pause } from 'node:timers/promises';
import { busyError, errnoOf, fsError, removeFile } from '../fs-error.ts';

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
  const me = `${process.pid}.${startOf(process.pid) ?? 0}.${hostId()}.${nonce}`;

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
  const [pid, start, host] = holder.split('.');
  if (host !== hostId()) return ageOf(path) > FOREIGN_SECONDS;
  const now = startOf(Number(pid));
  return now === undefined || (now !== 0 && start !== '0' && String(now) !== start);
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

/** When a process began, so that another one with its number is not taken for it; 0 where the system does not say, undefined where it is gone. */
function startOf(pid: number): number | undefined {
  if (process.platform === 'linux') {
    try {
      // After the name, which may hold anything, in parentheses: the state, and as the 20th field the start.
      const fields = readFileSync(`/proc/${pid}/stat`, 'latin1')
        .replace(/^.*\) /s, '')
        .split(' ');
      return fields[0] === 'Z' || fields[0] === 'X' ? undefined : Number(fields[19]);
    } catch {
      // Gone, or hidden from this user: the signal below tells.
    }
  }
  try {
    process.kill(pid, 0);
    return 0;
  } catch (error) {
    return errnoOf(error) === 'ESRCH' ? undefined : 0;
  }
}

let knownHost: string | undefined;

/** This machine since it was started, and on Linux this container: where the numbers of processes mean the same. */
function hostId(): string {
  knownHost ??= createHash('sha256').update(describeHost()).digest('hex').slice(0, 12);
  return knownHost;
}

function describeHost(): string {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'latin1') + readlinkSync('/proc/self/ns/pid');
  } catch {
    return hostname();
  }
}
