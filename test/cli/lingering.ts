import { fileURLToPath } from 'node:url';

/** A stdio server that is hard to get rid of. */
export const LINGERING = fileURLToPath(new URL('lingering-server.mjs', import.meta.url));

/** It as a TARGET. */
export function lingering(...how: readonly string[]): string {
  return `stdio:${[process.execPath, LINGERING, ...how].join(' ')}`;
}

/** True where no process has that pid. */
export function isGone(pid: number): boolean {
  try {
    return !process.kill(pid, 0);
  } catch {
    return true;
  }
}
