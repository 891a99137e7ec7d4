import { MARK } from '../../store/kit/collection.ts';
import { withLease } from '../../store/kit/lease.ts';
import type { CredentialCache } from './credential-cache.ts';
import { isRefusal, refusedElsewhereError } from './sign-in.ts';

/** How long waiting processes can find the user's refusal, in seconds. */
const REFUSAL = 60;

/**
 * Signs in while no other process does so for the same connection, so that several hosts that start together show one page.
 * Waiting processes call `elsewhere`, and use the resulting tokens. If there are none, it is their turn, unless the user
 * has refused: the refusal applies to them too.
 */
export async function signInOnce(
  credentialCache: CredentialCache,
  signIn: () => Promise<void>,
  { signal, elsewhere }: { readonly signal: AbortSignal; elsewhere(): void },
): Promise<void> {
  const { store, key } = credentialCache.keeper;
  const refusal = async (): Promise<string | undefined> => (await store.get(`${key}/refused`))?.version;
  const refused = async (error: unknown): Promise<never> => {
    if (isRefusal(error)) await store.put(`${key}/refused`, MARK, { ttl: REFUSAL }).catch(() => undefined);
    throw error;
  };
  const before = await refusal();
  const alone = async (): Promise<void> => {
    if (await isSignedIn(credentialCache)) return;
    const latest = await refusal();
    if (latest !== undefined && latest !== before) throw refusedElsewhereError();
    await signIn().catch(refused);
  };
  let isTold = false;
  const meanwhile = async (): Promise<true | undefined> => {
    if (await isSignedIn(credentialCache)) return true;
    if (!isTold) elsewhere();
    isTold = true;
    return undefined;
  };
  await withLease<unknown>(store, `${key}/sign-in`, alone, { wait: Infinity, signal, meanwhile });
}

async function isSignedIn(credentialCache: CredentialCache): Promise<boolean> {
  const { tokens } = await credentialCache.reload();
  return tokens !== undefined && credentialCache.isGood(tokens);
}
