import type { Major } from '../major.ts';
import { loadAuth } from './sdk-auth.ts';

/** What a server asks for in `WWW-Authenticate` when it rejects a request. */
export interface Challenge {
  readonly resourceMetadataUrl?: URL | undefined;
  /** The scopes to request, separated by spaces. */
  readonly scope?: string | undefined;
}

/** Scope names according to RFC 6749, without characters that would end the header value. */
const NAME = /^[\x21\x23-\x5b\x5d-\x7e]+$/;
const SCOPE = /scope=(?:"([^"]*)"|([^\s,]+))/;

/** Whether the server requires another token: a valid one, or one with more scopes. */
export function isChallenge({ status, headers }: Response): boolean {
  if (status !== 403) return status === 401;
  return /insufficient_scope/.test(headers.get('www-authenticate') ?? '');
}

/**
 * Reads a challenge. If the server requires more scopes, adds those that the token already has: a server names only the
 * scopes of one call, and a token with only those would lose the others.
 */
export async function challengeIn(
  response: Response,
  granted: string | undefined,
  major: Major,
): Promise<Challenge> {
  const { extractWWWAuthenticateParams } = await loadAuth(major);
  const { resourceMetadataUrl, scope } = extractWWWAuthenticateParams(response);
  const challenge = resourceMetadataUrl ? { resourceMetadataUrl } : {};
  if (response.status === 401) return scope === undefined ? challenge : { ...challenge, scope };
  const [, quoted, plain = ''] = SCOPE.exec(response.headers.get('www-authenticate') ?? '') ?? [];
  const required = namesIn(quoted ?? plain);
  if (required.length === 0) return challenge;
  return { ...challenge, scope: [...new Set([...namesIn(granted ?? ''), ...required])].join(' ') };
}

function namesIn(scope: string): readonly string[] {
  return scope.split(' ').filter((name) => NAME.test(name));
}
