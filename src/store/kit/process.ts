import { readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';
import { lazy } from '../../core/lazy.ts';
import { sha256 } from '../../core/sha256.ts';

/** Identifies a process, so that others on the same host can tell whether it is still running. */
export interface ProcessMark {
  /** This host since its last boot, and on Linux this container: the range in which a process id is unique at any time. */
  readonly host: string;
  readonly pid: number;
  /** The start time, as the system counts it, because process ids are reused. '0' if the system does not report it. */
  readonly started: string;
}

/** Returns the mark of this process. */
export const ownProcess: () => ProcessMark = lazy(() => ({
  host: hostId(),
  pid: process.pid,
  started: startOf(process.pid) ?? '0',
}));

/** Whether the process with this mark is still running. Returns undefined if it is on another host, where that is unknown. */
export function isRunning({ host, pid, started }: ProcessMark): boolean | undefined {
  if (host !== ownProcess().host) return undefined;
  const now = startOf(pid);
  return now !== undefined && (now === '0' || started === '0' || now === started);
}

/** Returns the start time of a process, '0' if the system does not report it, or undefined if the process has ended. */
function startOf(pid: number): string | undefined {
  if (!Number.isInteger(pid) || pid <= 0) return undefined;
  if (process.platform === 'linux') {
    try {
      // The program name, which may contain anything, is in parentheses. After it come the state and, as the 20th
      // field, the start time.
      const [state = 'X', ...rest] = readFileSync(`/proc/${pid}/stat`, 'latin1')
        .replace(/^.*\) /s, '')
        .split(' ');
      return /[ZXx]/.test(state) ? undefined : rest[18];
    } catch {
      // The process has ended, or is hidden from this user. The signal below tells which.
    }
  }
  try {
    process.kill(pid, 0);
    return '0';
  } catch (error) {
    return (error as { readonly code?: unknown }).code === 'ESRCH' ? undefined : '0';
  }
}

function hostId(): string {
  let description: string;
  try {
    description =
      readFileSync('/proc/sys/kernel/random/boot_id', 'latin1') + readlinkSync('/proc/self/ns/pid');
  } catch {
    description = hostname();
  }
  return sha256(description, 'hex').slice(0, 12);
}
