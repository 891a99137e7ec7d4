import { setTimeout as wait } from 'node:timers/promises';
import { holding, LEASE_SECONDS } from './lease.ts';
import type { Wallet } from './wallet.ts';

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
