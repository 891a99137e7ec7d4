import { setTimeout as wait } from 'node:timers/promises';
import type { Lease } from '../../store/types.ts';
import type { Wallet } from './wallet.ts';

/** Short, for the sake of those who wait for a process that was killed; it is renewed while the user takes longer. */
const LEASE_SECONDS = 6;
/** How often, in milliseconds. */
const RENEWAL = 2000;
/** How long, in milliseconds, whoever waits for another process to sign in leaves it alone. */
const PAUSE = 250;

/**
 * Signs in while no other process does so for the same connection: several hosts that start together show their user one
 * page. Those who wait say so with `elsewhere`, and take the tokens that came of it; where none did, it is their turn.
 */
export async function signInOnce(
  wallet: Wallet,
  signIn: () => Promise<void>,
  { signal, elsewhere }: { readonly signal: AbortSignal; elsewhere(): void },
): Promise<void> {
  const { store, key } = wallet.keeper;
  let isTold = false;
  for (;;) {
    signal.throwIfAborted();
    const lease = await store.lease(`${key}/sign-in`, LEASE_SECONDS);
    if (await isSignedIn(wallet)) return lease?.release();
    if (lease) return holding(lease, signIn);
    if (!isTold) elsewhere();
    isTold = true;
    await wait(PAUSE, undefined, { signal }).catch(() => {});
  }
}

async function isSignedIn(wallet: Wallet): Promise<boolean> {
  const { tokens } = await wallet.reload();
  return tokens !== undefined && wallet.isGood(tokens);
}

async function holding(lease: Lease, work: () => Promise<void>): Promise<void> {
  const renewing = setInterval(() => void lease.renew(LEASE_SECONDS).catch(() => undefined), RENEWAL);
  try {
    await work();
  } finally {
    clearInterval(renewing);
    // Where it cannot be given back it ends by itself.
    await lease.release().catch(() => undefined);
  }
}
