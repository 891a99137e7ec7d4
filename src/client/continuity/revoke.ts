import { isObject } from '../../json.ts';
import type { FetchLike } from '../../link/edge-fetch.ts';
import type { AuthOptions } from './auth-options.ts';
import { type Credentials, isSameIssuer } from './credentials.ts';
import { isEndpointRefusal } from './endpoints.ts';

const PATIENCE = 5000;

/** A registration that was made beforehand. */
export type OwnClient = NonNullable<AuthOptions['client']>;

/**
 * What became of tokens: the authorization server has revoked them; it could not be reached; it has no way, or would
 * not; it was not asked, since it does so only for the client's secret, which is not kept; or there were none.
 */
export type Revoked = 'revoked' | 'unreachable' | 'refused' | 'needs-secret' | 'none';

/** What became of tokens that were in several places: what is worst is told. */
export function worstOf(each: readonly Revoked[]): Revoked {
  const order = ['unreachable', 'refused', 'needs-secret', 'revoked'] as const;
  return order.find((how) => each.includes(how)) ?? 'none';
}

/** Asks the authorization server to revoke tokens (RFC 7009). If it does not, they expire. `base` checks endpoints. */
export async function revoke(credentials: Credentials, base: FetchLike, own?: OwnClient): Promise<Revoked> {
  const { tokens } = credentials;
  if (!tokens) return 'none';
  // Only the one they were given to can have them revoked.
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
  // The refresh token first: without it, whoever has the other one cannot stay.
  const first =
    tokens.refresh_token === undefined ? 'revoked' : await revokeOne(tokens.refresh_token, 'refresh_token');
  const second = await revokeOne(tokens.access_token, 'access_token');
  return first === 'revoked' ? second : first;
}

interface Client {
  readonly id: string;
  readonly secret?: string | undefined;
  /** How it shows its secret, where the registration says it. */
  readonly method?: unknown;
}

/** The client that tokens were given to, with its secret, where it has one. */
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

/** How the client shows that it is the one: as it is registered, else as the SDKs choose, Basic before the form. */
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
  /** How clients may show their secrets there. */
  readonly methods: readonly unknown[];
}

/** Where to revoke. What the SDKs keep of a server's metadata may leave it out; then the server is asked again. */
async function placeOf(
  { discovery, issuer }: Credentials,
  base: FetchLike,
): Promise<Place | 'unreachable' | 'refused'> {
  const kept = readPlace(discovery?.['authorizationServerMetadata']);
  if (kept) return kept;
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
  const signal = AbortSignal.timeout(PATIENCE);
  return base(url, { ...init, signal }).catch((error: unknown) =>
    isEndpointRefusal(error) ? new Response(null, { status: 403 }) : undefined,
  );
}
