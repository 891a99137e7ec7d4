import { existsSync, readFileSync } from 'node:fs';

/** A process that has ended may still be listed until somebody asks how it ended. */
export function isRunning(pid: number): boolean {
  const status = `/proc/${pid}/status`;
  try {
    process.kill(pid, 0);
    return !existsSync(status) || !/^State:\s+Z/m.test(readFileSync(status, 'utf8'));
  } catch {
    return false;
  }
}
