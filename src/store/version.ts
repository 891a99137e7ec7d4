import { randomBytes } from 'node:crypto';
import { lazy } from '../lazy.ts';

const origin = lazy(() => randomBytes(9).toString('base64url'));
let count = 0;

/** Returns a version that no process has used or will use again, without a shared counter. */
export function nextVersion(): string {
  return `${origin()}.${(count++).toString(36)}`;
}
