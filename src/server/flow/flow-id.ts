import { randomFillSync } from 'node:crypto';

const BYTES = 16;
const pool = Buffer.alloc(BYTES * 256);
let at = pool.length;

/** A new flow's id: 128 random bits, drawn many at a time because each draw costs more than its bytes. */
export function newFlowId(): string {
  if (at === pool.length) {
    randomFillSync(pool);
    at = 0;
  }
  const id = pool.toString('base64url', at, at + BYTES);
  // What has been given out is not kept where it could be given out again.
  pool.fill(0, at, at + BYTES);
  at += BYTES;
  return id;
}
