import { readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';
import { lazy } from '../../lazy.ts';
import { sha256 } from '../../sha256.ts';

/** Names a process, so that others on the same host can tell whether it still runs. */
export interface ProcessMark {
  /** This host since it was started, and on Linux this container: where a process id means one process at a time. */
  readonly host: string;
  readonly pid: number;
  /** When it began, as the system counts, since ids are given again. '0' if the system does not tell. */
  readonly started: string;
}

/** The mark of this process. */
export const ownProcess: () => ProcessMark = lazy(() => ({
  host: hostId(),
  pid: process.pid,
  started: startOf(process.pid) ?? '0',
}));

/** Whether the process with this mark still runs; undefined if it is on another host, where nobody can tell. */
export function isRunning({ host, pid, started }: ProcessMark): boolean | undefined {
  if (host !== ownProcess().host) return undefined;
  const now = startOf(pid);
  return now !== undefined && (now === '0' || started === '0' || now === started);
}

/** When a process began; '0' if the system does not tell, undefined if it has ended. */
function startOf(pid: number): string | undefined {
  if (!Number.isInteger(pid) || pid <= 0) return undefined;
  if (process.platform === 'linux') {
    try {
      // After the program's name, which may hold anything, in parentheses: the state, and as the 20th field the start.
      const [state = 'X', ...rest] = readFileSync(`/proc/${pid}/stat`, 'latin1')
        .replace(/^.*\) /s, '')
        .split(' ');
      return /[ZXx]/.test(state) ? undefined : rest[18];
    } catch {
      // It has ended, or is hidden from this user: the signal below tells.
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
