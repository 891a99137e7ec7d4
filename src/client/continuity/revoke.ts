import { isObject } from '../../json.ts';
import type { FetchLike } from '../../link/edge-fetch.ts';
import { type Credentials, isSameIssuer } from './credentials.ts';
import { isSafePage } from './sign-in.ts';

const PATIENCE = 5000;

/**
 * What became of tokens: the authorization server has revoked them; it could not be reached; it has no way, or would
 * not; or there were none.
 */
export type Revoked = 'revoked' | 'unreachable' | 'refused' | 'none';

/** What became of tokens that were in several places: what is worst is told. */
export function worstOf(each: readonly Revoked[]): Revoked {
  const order = ['unreachable', 'refused', 'revoked'] as const;
  return order.find((how) => each.includes(how)) ?? 'none';
}

/** Asks the authorization server to revoke tokens (RFC 7009). Where it does not, they run out. */
export async function revoke(credentials: Credentials, base: FetchLike): Promise<Revoked> {
  const { tokens, client } = credentials;
  if (!tokens) return 'none';
  // Only the one they were given to can have them revoked.
  if (!client) return 'refused';
  const url = await endpointOf(credentials, base);
  if (typeof url === 'string') return url;
  const secret = client['client_secret'];
  const headers = new Headers({ 'content-type': 'application/x-www-form-urlencoded' });
  if (typeof secret === 'string')
    headers.set('authorization', `Basic ${Buffer.from(`${client.client_id}:${secret}`).toString('base64')}`);
  const revokeOne = async (token: string, hint: string): Promise<Revoked> => {
    const body = new URLSearchParams({ token, token_type_hint: hint, client_id: client.client_id });
    const response = await ask(base, url, { method: 'POST', headers, body });
    return !response ? 'unreachable' : response.ok ? 'revoked' : 'refused';
  };
  // The refresh token first: without it, whoever has the other one cannot stay.
  const first =
    tokens.refresh_token === undefined ? 'revoked' : await revokeOne(tokens.refresh_token, 'refresh_token');
  const second = await revokeOne(tokens.access_token, 'access_token');
  return first === 'revoked' ? second : first;
}

/** Where to revoke. What the SDKs keep of a server's metadata may leave it out; then the server is asked again. */
async function endpointOf(
  { discovery, issuer }: Credentials,
  base: FetchLike,
): Promise<URL | 'unreachable' | 'refused'> {
  const kept = readEndpoint(discovery?.['authorizationServerMetadata']);
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
      return readEndpoint(metadata) ?? 'refused';
  }
  return reached ? 'refused' : 'unreachable';
}

function readEndpoint(metadata: unknown): URL | undefined {
  const endpoint = isObject(metadata) ? metadata['revocation_endpoint'] : undefined;
  if (typeof endpoint !== 'string' || !URL.canParse(endpoint)) return undefined;
  const url = new URL(endpoint);
  return isSafePage(url) ? url : undefined;
}

async function ask(base: FetchLike, url: URL, init: RequestInit): Promise<Response | undefined> {
  const signal = AbortSignal.timeout(PATIENCE);
  return base(url, { ...init, redirect: 'manual', signal }).catch(() => undefined);
}
