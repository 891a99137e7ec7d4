import { ValiseError } from '../../errors.ts';
import { isObject } from '../../json.ts';
import type { FetchLike } from '../../link/edge-fetch.ts';
import { withLease } from '../../store/kit/lease.ts';
import { installedMajor, type Major } from '../major.ts';
import {
  CredentialCache,
  type CredentialKeeper,
  type Credentials,
  isEnding,
  isSameIssuer,
  issuerOf,
  type Registration,
  stamped,
  type Tokens,
} from './credentials.ts';
import { boundTo } from './provider.ts';
import { type OwnClient, revoke } from './revocation.ts';
import { loadAuth } from './sdk-auth.ts';

/**
 * Returns a `fetch` for sign-in requests that handles every refresh of both SDKs. One process at a time refreshes, and stores the
 * result before the next one reads it. Refresh tokens are often valid for one use only, and a second use revokes them all.
 */
export function tokenFetch(
  base: FetchLike,
  credentialCache: CredentialCache,
  { refreshed, own }: { refreshed(tokens: Tokens): void; readonly own: OwnClient | undefined },
): FetchLike {
  return async (url, init = {}) => {
    const form = refreshForm(init);
    if (!form) return base(url, init);
    const { keeper } = credentialCache;
    return withLease(
      keeper.store,
      `${keeper.key}/refresh`,
      async () =>
        (await byAnother(credentialCache)) ??
        keeper.refreshing(() => refresh(base, credentialCache, { url, init, form, refreshed, own })),
      { meanwhile: () => byAnother(credentialCache) },
    );
  };
}

function refreshForm({ method, body }: RequestInit): URLSearchParams | undefined {
  if (method !== 'POST' || !(typeof body === 'string' || body instanceof URLSearchParams)) return undefined;
  const form = new URLSearchParams(body);
  return form.get('grant_type') === 'refresh_token' ? form : undefined;
}

/** Returns the tokens that another process has refreshed meanwhile, as a response of the authorization server. */
async function byAnother(credentialCache: CredentialCache): Promise<Response | undefined> {
  const { tokens } = await credentialCache.reload();
  if (!tokens || !credentialCache.isGood(tokens)) return undefined;
  const { issuer: _, expiresAt, ...rest } = tokens;
  const left = expiresAt === undefined ? {} : { expires_in: Math.ceil((expiresAt - Date.now()) / 1000) };
  return Response.json({ ...rest, ...left });
}

interface Refresh {
  readonly url: string | URL;
  readonly init: RequestInit;
  readonly form: URLSearchParams;
  /** An existing registration. */
  readonly own: OwnClient | undefined;
  refreshed(tokens: Tokens): void;
}

async function refresh(
  base: FetchLike,
  credentialCache: CredentialCache,
  { url, init, form, refreshed, own }: Refresh,
): Promise<Response> {
  const sent = form.get('refresh_token') ?? '';
  const before = await credentialCache.current();
  const { tokens, client } = before;
  // Another process has signed out or stored other tokens, so this one must not be tried.
  if (tokens?.refresh_token !== sent || credentialCache.isDead(tokens)) return notTaken();
  const signal = AbortSignal.timeout(PATIENCE);
  const send = async () => {
    const response = await base(url, { ...init, signal });
    return { response, text: await response.text() };
  };
  // A broken connection says nothing about the token, and the next process would retry it too.
  const answered = await send().catch(() => send().catch(() => undefined));
  if (!answered) return unavailable('cannot be reached');
  const { response, text } = answered;
  const answer = parse(text);
  if (response.ok && typeof answer['access_token'] === 'string') {
    const fresh = stamped({ token_type: 'Bearer', ...answer } as Tokens, tokens);
    const now = await credentialCache.change((kept) =>
      kept.tokens?.refresh_token === sent ? { ...kept, tokens: fresh } : undefined,
    );
    if (now.tokens?.access_token !== fresh.access_token) {
      // The user has signed out meanwhile, and these new tokens were not revoked.
      if (!now.tokens) await revoke({ ...before, tokens: fresh }, base, own);
      return (await byAnother(credentialCache)) ?? notTaken();
    }
    credentialCache.given(fresh.access_token);
    refreshed(fresh);
  } else if (REFUSALS.has(answer['error'])) {
    credentialCache.markDead(sent);
    // Removes the registration immediately. Otherwise the next process would use an unknown client at the sign-in page.
    // Tokens and a registration that another process has stored meanwhile stay.
    if (answer['error'] !== 'invalid_grant')
      await credentialCache.change(({ client: known, ...rest }) =>
        known && known.client_id === client?.client_id && rest.tokens?.refresh_token === sent
          ? rest
          : undefined,
      );
  } else if (response.status >= 500 || response.status === 429)
    return unavailable(`answers ${response.status}`);
  const { status, statusText, headers } = response;
  return new Response(text, { status, statusText, headers: withoutCoding(headers) });
}

/** The timeout for the authorization server, in milliseconds. */
const PATIENCE = 15_000;

const REFUSALS = new Set<unknown>(['invalid_grant', 'invalid_client', 'unauthorized_client']);

function notTaken(): Response {
  return Response.json(
    { error: 'invalid_grant', error_description: 'The refresh token is no longer good.' },
    { status: 400 },
  );
}

const UNAVAILABLE = 'temporarily_unavailable';

/** Returns a response that keeps both SDKs from rejecting the refresh token and sending the user to the sign-in page. */
function unavailable(how: string): Response {
  return Response.json({ error: UNAVAILABLE, error_description: how }, { status: 503 });
}

/** Converts the resulting SDK error to a Valise error. Returns undefined for other errors. */
export function unavailableError(error: unknown): ValiseError | undefined {
  const { code, errorCode = code, message } = (error ?? {}) as Record<string, unknown>;
  if (errorCode !== UNAVAILABLE) return undefined;
  const how = /(cannot be reached|answers \d+)$/.exec(String(message))?.[0] ?? 'is not available';
  return new ValiseError(
    'server-unreachable',
    `The token is over, and the authorization server, which would give a new one, ${how}.`,
    { next: 'Try again later; nobody needs to sign in again for it.', cause: error },
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

/** Removes the encoding headers, because the text is already decoded. */
function withoutCoding(headers: Headers): Headers {
  const plain = new Headers(headers);
  plain.delete('content-encoding');
  plain.delete('content-length');
  return plain;
}

/** Whether a refresh is due and can help. */
export function isDue(tokens: Tokens, credentialCache: CredentialCache): boolean {
  return tokens.refresh_token !== undefined && isEnding(tokens) && !credentialCache.isDead(tokens);
}

/** Refreshes tokens with the SDK's own function, through {@link tokenFetch}. */
export async function refreshNow({
  tokens,
  discovery,
  client,
  major,
  fetch: fetchFn,
  dpop,
}: {
  readonly tokens: Tokens;
  readonly discovery: NonNullable<Credentials['discovery']>;
  readonly client: Registration | undefined;
  readonly major: Major;
  readonly fetch: FetchLike;
  /** Signs the request if the tokens are bound to a key. */
  readonly dpop?: object | undefined;
}): Promise<void> {
  const server = discovery['authorizationServerUrl'];
  if (typeof server !== 'string' || !client) return;
  const { issuer } = tokens;
  const isKnown = isSameIssuer(issuer, issuerOf(discovery)) || isSameIssuer(issuer, server);
  if (issuer !== undefined && !isKnown) return;
  const { refreshAuthorization } = await loadAuth(major);
  const { resource } = (discovery['resourceMetadata'] ?? {}) as { readonly resource?: string };
  await refreshAuthorization(server, {
    metadata: discovery['authorizationServerMetadata'],
    clientInformation: client,
    refreshToken: tokens.refresh_token ?? '',
    ...(resource !== undefined && { resource }),
    ...(dpop && { dpop }),
    fetchFn,
  });
}

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
