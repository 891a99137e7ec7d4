import { ValiseError } from '../../core/errors.ts';
import { isObject } from '../../core/json.ts';
import type { FetchLike } from '../../edge/fetch.ts';
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
import { isEndpointRefusal } from './endpoints.ts';
import type { AuthOptions } from './options.ts';
import { boundTo, loadAuth } from './provider.ts';

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
  const signal = AbortSignal.timeout(REFRESH_TIMEOUT);
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
    const now = await credentialCache.change((current) =>
      current.tokens?.refresh_token === sent ? { ...current, tokens: fresh } : undefined,
    );
    if (now.tokens?.access_token !== fresh.access_token) {
      // The user has signed out meanwhile, and these new tokens were not revoked.
      if (!now.tokens) await revoke({ ...before, tokens: fresh }, base, own);
      return (await byAnother(credentialCache)) ?? notTaken();
    }
    credentialCache.issued(fresh.access_token);
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
const REFRESH_TIMEOUT = 15_000;

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
    `The access token has expired, and the authorization server ${how}.`,
    { next: 'Try again later. No new sign-in is needed.', cause: error },
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

const REVOCATION_TIMEOUT = 5000;

/** An existing registration. */
export type OwnClient = NonNullable<AuthOptions['client']>;

/**
 * The outcome of a revocation: the authorization server revoked the tokens (`revoked`), could not be reached
 * (`unreachable`), or cannot or will not revoke them (`refused`). `needs-secret`: it was not asked, because it requires the
 * client's secret, which is not stored. `none`: there were no tokens.
 */
export type Revoked = 'revoked' | 'unreachable' | 'refused' | 'needs-secret' | 'none';

/** Returns the worst outcome for tokens that were in several places. */
export function worstOf(each: readonly Revoked[]): Revoked {
  const order = ['unreachable', 'refused', 'needs-secret', 'revoked'] as const;
  return order.find((how) => each.includes(how)) ?? 'none';
}

/** Asks the authorization server to revoke tokens (RFC 7009). Otherwise they expire. `base` checks endpoints. */
export async function revoke(credentials: Credentials, base: FetchLike, own?: OwnClient): Promise<Revoked> {
  const { tokens } = credentials;
  if (!tokens) return 'none';
  // Only the client that the tokens were issued to can have them revoked.
  const client = clientOf(credentials, own);
  if (typeof client === 'string') return client;
  const place = await placeOf(credentials, base);
  if (typeof place === 'string') return place;
  const { headers, form } = proofOf(client, place.methods);
  const revokeOne = async (token: string, hint: string): Promise<Revoked> => {
    const body = new URLSearchParams({ token, token_type_hint: hint, client_id: client.id, ...form });
    const response = await ask(base, place.url, { method: 'POST', headers, body });
    return !response ? 'unreachable' : response.ok ? 'revoked' : 'refused';
  };
  // The refresh token comes first: without it, a holder of the access token soon loses access.
  const first =
    tokens.refresh_token === undefined ? 'revoked' : await revokeOne(tokens.refresh_token, 'refresh_token');
  const second = await revokeOne(tokens.access_token, 'access_token');
  return first === 'revoked' ? second : first;
}

interface Client {
  readonly id: string;
  readonly secret?: string | undefined;
  /** How it authenticates with its secret, if the registration says so. */
  readonly method?: unknown;
}

/** Returns the client that the tokens were issued to, with its secret if it has one. */
function clientOf(
  { given, client, issuer }: Credentials,
  own: OwnClient | undefined,
): Client | 'refused' | 'needs-secret' {
  if (!given && client) {
    const { client_id: id, client_secret: secret, token_endpoint_auth_method: method } = client;
    return { id, method, ...(typeof secret === 'string' && { secret }) };
  }
  const isOwn = own && isSameIssuer(own.issuer, issuer) && (!given || given.id === own.id);
  if (isOwn && (own.secret !== undefined || !given?.hasSecret)) return own;
  if (!given) return 'refused';
  return given.hasSecret ? 'needs-secret' : { id: given.id };
}

/** Returns the client authentication: as registered, or else as the SDKs choose it, Basic before the form. */
function proofOf(
  { id, secret, method }: Client,
  methods: readonly unknown[],
): { readonly headers: Headers; readonly form: Readonly<Record<string, string>> } {
  const headers = new Headers({ 'content-type': 'application/x-www-form-urlencoded' });
  if (secret === undefined || method === 'none') return { headers, form: {} };
  const isInForm = methods.includes('client_secret_post') && !methods.includes('client_secret_basic');
  if (method === 'client_secret_post' || (method !== 'client_secret_basic' && isInForm))
    return { headers, form: { client_secret: secret } };
  headers.set('authorization', `Basic ${Buffer.from(`${id}:${secret}`).toString('base64')}`);
  return { headers, form: {} };
}

interface Place {
  readonly url: URL;
  /** The authentication methods that the endpoint supports. */
  readonly methods: readonly unknown[];
}

/** Returns the revocation endpoint. The SDKs' stored metadata may omit it, in which case the server is asked again. */
async function placeOf(
  { discovery, issuer }: Credentials,
  base: FetchLike,
): Promise<Place | 'unreachable' | 'refused'> {
  const known = readPlace(discovery?.['authorizationServerMetadata']);
  if (known) return known;
  if (issuer === undefined || !URL.canParse(issuer)) return 'refused';
  let reached = false;
  const { origin, pathname } = new URL(issuer);
  const path = pathname.replace(/\/$/, '');
  const places = [
    `/.well-known/oauth-authorization-server${path}`,
    `${path}/.well-known/openid-configuration`,
  ];
  for (const place of places) {
    const response = await ask(base, new URL(place, origin), {});
    reached ||= response !== undefined;
    const metadata: unknown = response?.ok ? await response.json().catch(() => undefined) : undefined;
    if (isObject(metadata) && isSameIssuer(String(metadata['issuer']), issuer))
      return readPlace(metadata) ?? 'refused';
  }
  return reached ? 'refused' : 'unreachable';
}

function readPlace(metadata: unknown): Place | undefined {
  if (!isObject(metadata)) return undefined;
  const { revocation_endpoint: endpoint, revocation_endpoint_auth_methods_supported: methods } = metadata;
  if (typeof endpoint !== 'string' || !URL.canParse(endpoint)) return undefined;
  return { url: new URL(endpoint), methods: Array.isArray(methods) ? methods : [] };
}

async function ask(base: FetchLike, url: URL, init: RequestInit): Promise<Response | undefined> {
  const signal = AbortSignal.timeout(REVOCATION_TIMEOUT);
  return base(url, { ...init, signal }).catch((error: unknown) =>
    isEndpointRefusal(error) ? new Response(null, { status: 403 }) : undefined,
  );
}
