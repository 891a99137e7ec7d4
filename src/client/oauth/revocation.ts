import { isObject } from '../../json.ts';
import type { FetchLike } from '../../link/edge-fetch.ts';
import { type Credentials, isSameIssuer } from './credentials.ts';
import { isEndpointRefusal } from './endpoints.ts';
import type { AuthOptions } from './options.ts';

const PATIENCE = 5000;

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
