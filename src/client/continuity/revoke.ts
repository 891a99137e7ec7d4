import { isObject } from '../../json.ts';
import type { FetchLike } from '../../link/edge-fetch.ts';
import type { Credentials } from './credentials.ts';
import { isSafePage } from './sign-in.ts';

const PATIENCE = 5000;

/** Asks the authorization server to revoke tokens (RFC 7009). Where it cannot be reached, or has no way, they run out. */
export async function revoke({ tokens, client, discovery }: Credentials, base: FetchLike): Promise<void> {
  const metadata = discovery?.['authorizationServerMetadata'];
  const endpoint = isObject(metadata) ? metadata['revocation_endpoint'] : undefined;
  if (!tokens || !client || typeof endpoint !== 'string' || !URL.canParse(endpoint)) return;
  const url = new URL(endpoint);
  if (!isSafePage(url)) return;
  const secret = client['client_secret'];
  const headers = new Headers({ 'content-type': 'application/x-www-form-urlencoded' });
  if (typeof secret === 'string')
    headers.set('authorization', `Basic ${Buffer.from(`${client.client_id}:${secret}`).toString('base64')}`);
  const revokeOne = async (token: string, hint: string): Promise<void> => {
    const body = new URLSearchParams({ token, token_type_hint: hint, client_id: client.client_id });
    const signal = AbortSignal.timeout(PATIENCE);
    await base(url, { method: 'POST', headers, body, redirect: 'manual', signal }).catch(() => {});
  };
  // The refresh token first: without it, whoever has the other one cannot stay.
  if (tokens.refresh_token !== undefined) await revokeOne(tokens.refresh_token, 'refresh_token');
  await revokeOne(tokens.access_token, 'access_token');
}
