import { readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';
import { isObject } from '../../json.ts';

/** Which process this is: enough for others on the same machine to see whether it still lives. */
export interface ProcessMark {
  /** Within it, a process id means one process at a time. */
  readonly machine: string;
  readonly pid: number;
  /** When the process began, as the system counts: ids are given again. Absent where the system does not tell. */
  readonly started?: string;
}

let own: ProcessMark | undefined;

/** The mark of this process. */
export function ownMark(): ProcessMark {
  if (!own) {
    const started = startOf(process.pid);
    own = { machine: machineName(), pid: process.pid, ...(started !== undefined && { started }) };
  }
  return own;
}

/**
 * True for the mark of another process of which is certain that it lives. Of one on another machine nobody can tell, and
 * whoever waited for it would wait for one that was killed, too.
 */
export function isLivingElsewhere(mark: unknown, me = ownMark()): boolean {
  if (!isObject(mark)) return false;
  const { machine, pid, started } = mark;
  if (machine !== me.machine || typeof pid !== 'number' || !Number.isInteger(pid) || pid <= 0) return false;
  if (pid === me.pid) return false;
  if (me.started === undefined) return isThere(pid);
  return typeof started === 'string' && startOf(pid) === started;
}

/** Containers have names and process ids of their own, and one that is started again has the same ones. */
function machineName(): string {
  try {
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
    return `${hostname()} ${boot} ${readlinkSync('/proc/self/ns/pid')}`;
  } catch {
    return hostname();
  }
}

/** Undefined for a process that has ended, also where nobody has taken note of it yet, and where the system does not tell. */
function startOf(pid: number): string | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The name of the program, in parentheses, may hold anything.
    const [state = 'X', ...rest] = text.slice(text.lastIndexOf(')') + 2).split(' ');
    return /[ZXx]/.test(state) ? undefined : rest[18];
  } catch {
    return undefined;
  }
}

function isThere(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as { readonly code?: unknown }).code === 'EPERM';
  }
}
