import { setTimeout as wait } from 'node:timers/promises';
import { ValiseError } from '../../errors.ts';
import type { Lease, Store } from '../../store/types.ts';

/** Short, for the sake of those who wait for a process that was killed; it is renewed while the work takes longer. */
export const LEASE_SECONDS = 6;
/** How often, in milliseconds. */
const RENEWAL = 2000;
const PATIENCE_SECONDS = 60;
/** How long anybody waits for a turn. */
const TURN_SECONDS = 5;

/**
 * Does `work` while no other process does. Those who wait ask `done` in between whether another one has done it for
 * them: its answer, where there is one, takes the place of the work.
 */
export async function underLease<T>(
  store: Store,
  key: string,
  work: () => Promise<T>,
  done: () => Promise<T | undefined>,
): Promise<T> {
  for await (const _ of tries(PATIENCE_SECONDS)) {
    const lease = await store.lease(key, LEASE_SECONDS);
    if (lease) return holding(lease, work);
    const answer = await done();
    if (answer !== undefined) return answer;
  }
  throw new ValiseError('lease-busy', `Another process has held ${key} for over ${PATIENCE_SECONDS} s.`, {
    next: 'End that process, or try again.',
  });
}

/** Does `work` under a lease of {@link LEASE_SECONDS}, however long it takes, and gives it back. */
export async function holding<T>(lease: Lease, work: () => Promise<T>): Promise<T> {
  const renewing = setInterval(() => void lease.renew(LEASE_SECONDS).catch(() => undefined), RENEWAL);
  try {
    return await work();
  } finally {
    clearInterval(renewing);
    // Where it cannot be given back it ends by itself.
    await lease.release().catch(() => undefined);
  }
}

/** Does `work` after others who do the same; at once where they take too long, or where the store gives no leases. */
export async function inTurn<T>(store: Store, key: string, work: () => Promise<T>): Promise<T> {
  const lease = await turn(store, key).catch(() => undefined);
  try {
    return await work();
  } finally {
    await lease?.release().catch(() => {});
  }
}

async function turn(store: Store, key: string): Promise<Lease | undefined> {
  for await (const _ of tries(TURN_SECONDS)) {
    const lease = await store.lease(key, TURN_SECONDS);
    if (lease) return lease;
  }
  return undefined;
}

/** Comes round at once and then again, less and less often, for as long as anybody waits. */
async function* tries(seconds: number): AsyncGenerator<void> {
  const giveUp = performance.now() + seconds * 1000;
  for (let pause = 10; performance.now() < giveUp; pause = Math.min(pause * 1.5, 200)) {
    yield;
    await wait(pause);
  }
}
