import { isObject } from '../json.ts';

/** Who asks: from verified auth, never from the bytes of a token, so that a refreshed token is still the same one. */
export interface Principal {
  readonly issuer?: string;
  readonly subject?: string;
  readonly client?: string;
}

/** What both SDK majors know about a verified request. */
export interface AuthInfo {
  readonly clientId?: string;
  readonly extra?: Readonly<Record<string, unknown>>;
}

/** The principal as the SDKs' `authInfo` tells it; undefined where nothing in it names anybody. */
export function principalOf(authInfo: AuthInfo | undefined): Principal | undefined {
  if (!authInfo) return undefined;
  const { iss, sub } = authInfo.extra ?? {};
  const principal: Principal = {
    ...(typeof iss === 'string' && { issuer: iss }),
    ...(typeof sub === 'string' && { subject: sub }),
    ...(typeof authInfo.clientId === 'string' && authInfo.clientId !== '' && { client: authInfo.clientId }),
  };
  return Object.keys(principal).length > 0 ? principal : undefined;
}

/** One text per principal, for keys and seals. No two principals share it. */
export function principalKey(principal: Principal | undefined): string | undefined {
  return (
    principal &&
    JSON.stringify([principal.issuer ?? null, principal.subject ?? null, principal.client ?? null])
  );
}

/** `authInfo` out of what a transport hands over with a message; both majors put it there under this name. */
export function authInfoOf(extra: unknown): AuthInfo | undefined {
  const info = isObject(extra) ? extra['authInfo'] : undefined;
  return isObject(info) ? (info as AuthInfo) : undefined;
}
