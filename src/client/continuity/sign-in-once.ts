import { setTimeout as wait } from 'node:timers/promises';
import { holding, LEASE_SECONDS } from './lease.ts';
import { isRefusal, refusedElsewhereError } from './sign-in.ts';
import type { Wallet } from './wallet.ts';

/** How long, in milliseconds, whoever waits for another process to sign in leaves it alone. */
const PAUSE = 250;
/** How long those who wait can find that the user has said no, in seconds. */
const REFUSAL = 60;

/**
 * Signs in while no other process does so for the same connection: several hosts that start together show their user one
 * page. Those who wait say so with `elsewhere`, and take the tokens that came of it; where none did, it is their turn,
 * unless the user has said no: that was meant for them too.
 */
export async function signInOnce(
  wallet: Wallet,
  signIn: () => Promise<void>,
  { signal, elsewhere }: { readonly signal: AbortSignal; elsewhere(): void },
): Promise<void> {
  const { store, key } = wallet.keeper;
  const refusal = async (): Promise<string | undefined> => (await store.get(`${key}/refused`))?.version;
  const refused = async (error: unknown): Promise<never> => {
    if (isRefusal(error)) await store.put(`${key}/refused`, true, { ttl: REFUSAL }).catch(() => undefined);
    throw error;
  };
  const before = await refusal();
  const alone = async (): Promise<void> => {
    const latest = await refusal();
    if (latest !== undefined && latest !== before) throw refusedElsewhereError();
    await signIn().catch(refused);
  };
  let isTold = false;
  for (;;) {
    signal.throwIfAborted();
    const lease = await store.lease(`${key}/sign-in`, LEASE_SECONDS);
    if (await isSignedIn(wallet)) return lease?.release();
    if (lease) return holding(lease, alone);
    if (!isTold) elsewhere();
    isTold = true;
    await wait(PAUSE, undefined, { signal }).catch(() => {});
  }
}

async function isSignedIn(wallet: Wallet): Promise<boolean> {
  const { tokens } = await wallet.reload();
  return tokens !== undefined && wallet.isGood(tokens);
}
