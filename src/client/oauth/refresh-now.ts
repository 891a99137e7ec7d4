import { ValiseError } from '../../errors.ts';
import type { FetchLike } from '../../link/edge-fetch.ts';
import { installedMajor } from '../major.ts';
import { CredentialCache, type CredentialKeeper } from './credentials.ts';
import { boundTo } from './dpop.ts';
import { refreshNow, tokenFetch, unavailableError } from './refresh.ts';

/**
 * Refreshes stored tokens without a connection, under the same lease as every other refresh. Returns false if there are no
 * tokens that can be refreshed without a secret of the host.
 */
export async function refreshIn(keeper: CredentialKeeper, base: FetchLike): Promise<boolean> {
  const cache = new CredentialCache(keeper);
  const { tokens, discovery, client, dpop, given } = await cache.reload();
  if (tokens?.refresh_token === undefined || !discovery || given?.hasSecret) return false;
  // The token is good. Counting it as rejected makes this process ask for another one all the same.
  cache.refuse(tokens.access_token);
  const major = installedMajor();
  let isRefreshed = false;
  const refreshed = (): void => {
    isRefreshed = true;
  };
  try {
    await refreshNow({
      tokens,
      discovery,
      client: client ?? (given && { client_id: given.id }),
      major,
      fetch: tokenFetch(base, cache, { refreshed, own: undefined }),
      ...(dpop && { dpop: await boundTo(cache, major)() }),
    });
  } catch (cause) {
    throw unavailableError(cause) ?? notRefreshed(cause);
  }
  // Another process may have refreshed them while this one waited.
  const now = (await cache.reload()).tokens;
  if (isRefreshed || now?.access_token !== tokens.access_token) return true;
  throw notRefreshed(undefined);
}

function notRefreshed(cause: unknown): ValiseError {
  return new ValiseError('sign-in-failed', 'The authorization server did not issue new tokens.', {
    next: 'Sign in again at the next call.',
    ...(cause !== undefined && { cause }),
  });
}
