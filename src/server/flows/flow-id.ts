import { randomFillSync } from 'node:crypto';

const BYTES = 16;
const pool = Buffer.alloc(BYTES * 256);
let at = pool.length;

/** Returns a new flow id of 128 random bits. Bytes are drawn in bulk, since each draw costs more than its bytes. */
export function newFlowId(): string {
  if (at === pool.length) {
    randomFillSync(pool);
    at = 0;
  }
  const id = pool.toString('base64url', at, at + BYTES);
  // Erase the issued bytes, so that they cannot be issued again.
  pool.fill(0, at, at + BYTES);
  at += BYTES;
  return id;
}
