import { setTimeout as wait } from 'node:timers/promises';
import type { Lease } from '../../store/types.ts';
import { LEASE_SECONDS } from './lease.ts';
import type { Wallet } from './wallet.ts';

/** How long, in milliseconds, whoever waits for another process to sign in leaves it alone. */
const PAUSE = 250;

/**
 * Signs in while no other process does so for the same connection: several hosts that start together show their user one
 * page. Those who wait take the tokens that came of it; where none did, it is their turn.
 */
export async function signInOnce(
  wallet: Wallet,
  signIn: () => Promise<void>,
  signal: AbortSignal,
): Promise<void> {
  const { store, key } = wallet.keeper;
  for (;;) {
    const lease = await store.lease(`${key}/sign-in`, LEASE_SECONDS);
    if (await isSignedIn(wallet)) return lease?.release();
    if (lease) return holding(lease, signIn);
    await wait(PAUSE, undefined, { signal });
  }
}

async function isSignedIn(wallet: Wallet): Promise<boolean> {
  const { tokens } = await wallet.reload();
  return tokens !== undefined && wallet.isGood(tokens);
}

/** A user takes longer than the lease, which is short for the sake of those who wait for a process that was killed. */
async function holding(lease: Lease, work: () => Promise<void>): Promise<void> {
  const renewing = setInterval(
    () => void lease.renew(LEASE_SECONDS).catch(() => undefined),
    LEASE_SECONDS * 500,
  );
  try {
    await work();
  } finally {
    clearInterval(renewing);
    // Where it cannot be given back it ends by itself.
    await lease.release().catch(() => undefined);
  }
}
