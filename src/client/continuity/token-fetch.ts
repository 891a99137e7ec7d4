import { isObject } from '../../json.ts';
import type { FetchLike } from '../../link/edge-fetch.ts';
import { isEnding, stamped, type Tokens } from './credentials.ts';
import { LEASE_SECONDS, underLease } from './lease.ts';
import type { Wallet } from './wallet.ts';

/**
 * A `fetch` for signing in, through which every refresh of both SDKs goes. One process at a time refreshes, and keeps the
 * result before it lets the next one look: refresh tokens are often good for one use, and the second use revokes them all.
 */
export function tokenFetch(base: FetchLike, wallet: Wallet, refreshed: (tokens: Tokens) => void): FetchLike {
  return async (url, init = {}) => {
    const form = refreshForm(init);
    if (!form) return base(url, init);
    const { keeper } = wallet;
    return underLease(
      keeper.store,
      `${keeper.key}/refresh`,
      async () => (await byAnother(wallet)) ?? refresh(base, wallet, { url, init, form, refreshed }),
      () => byAnother(wallet),
    );
  };
}

function refreshForm({ method, body }: RequestInit): URLSearchParams | undefined {
  if (method !== 'POST' || !(typeof body === 'string' || body instanceof URLSearchParams)) return undefined;
  const form = new URLSearchParams(body);
  return form.get('grant_type') === 'refresh_token' ? form : undefined;
}

/** What another process has refreshed in the meantime, in the words of the authorization server. */
async function byAnother(wallet: Wallet): Promise<Response | undefined> {
  const { tokens } = await wallet.reload();
  if (!tokens || !wallet.isGood(tokens)) return undefined;
  const { issuer: _, expiresAt, ...rest } = tokens;
  const left = expiresAt === undefined ? {} : { expires_in: Math.ceil((expiresAt - Date.now()) / 1000) };
  return Response.json({ ...rest, ...left });
}

interface Refresh {
  readonly url: string | URL;
  readonly init: RequestInit;
  readonly form: URLSearchParams;
  refreshed(tokens: Tokens): void;
}

async function refresh(
  base: FetchLike,
  wallet: Wallet,
  { url, init, form, refreshed }: Refresh,
): Promise<Response> {
  const sent = form.get('refresh_token') ?? '';
  const { tokens, client } = await wallet.current();
  // Signed out by another process, or it has other tokens: this one is not to be tried.
  if (tokens?.refresh_token !== sent || wallet.isDead(tokens)) return notTaken();
  const signal = AbortSignal.timeout((LEASE_SECONDS - 5) * 1000);
  const response = await base(url, { ...init, signal });
  const text = await response.text();
  const answer = parse(text);
  if (response.ok && typeof answer['access_token'] === 'string') {
    const fresh = stamped({ token_type: 'Bearer', ...answer } as Tokens, tokens);
    // Not where the user has signed out in the meantime.
    await wallet.change((now) =>
      now.tokens?.refresh_token === sent ? { ...now, tokens: fresh } : undefined,
    );
    wallet.given(fresh.access_token);
    refreshed(fresh);
  } else if (REFUSALS.has(answer['error'])) {
    wallet.bury(sent);
    // At once: whoever comes next hears of the refresh token alone, and would go to the sign-in page as a client that
    // nobody knows. Tokens and a registration that another process has brought in the meantime stay.
    if (answer['error'] !== 'invalid_grant')
      await wallet.change(({ client: known, ...rest }) =>
        known && known.client_id === client?.client_id && rest.tokens?.refresh_token === sent
          ? rest
          : undefined,
      );
  }
  const { status, statusText, headers } = response;
  return new Response(text, { status, statusText, headers: withoutCoding(headers) });
}

const REFUSALS = new Set<unknown>(['invalid_grant', 'invalid_client', 'unauthorized_client']);

function notTaken(): Response {
  return Response.json(
    { error: 'invalid_grant', error_description: 'The refresh token is no longer good.' },
    { status: 400 },
  );
}

function parse(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : {};
  } catch {
    return {};
  }
}

/** The text has been read, so it is not coded any more. */
function withoutCoding(headers: Headers): Headers {
  const plain = new Headers(headers);
  plain.delete('content-encoding');
  plain.delete('content-length');
  return plain;
}

/** True where a refresh can help and is due. */
export function isDue(tokens: Tokens, wallet: Wallet): boolean {
  return tokens.refresh_token !== undefined && isEnding(tokens) && !wallet.isDead(tokens);
}
