import { randomBytes } from 'node:crypto';
import { lazy } from '../lazy.ts';

const origin = lazy(() => randomBytes(9).toString('base64url'));
let count = 0;

/** A version that no process has used and none will use again, with no counter to share. */
export function nextVersion(): string {
  return `${origin()}.${(count++).toString(36)}`;
}
