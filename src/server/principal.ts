import { ValiseError } from '../errors.ts';
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

/** Tells who asks. */
export type TellPrincipal = (authInfo: AuthInfo | undefined, extra: unknown) => Principal | undefined;

const NAMES = ['issuer', 'subject', 'client'] as const;

/**
 * What an author's function tells, checked: who has no name is nobody, and what is no principal is an error. Else
 * all whom it does not name would be one principal, and get each other's state.
 */
export function checkedPrincipal(tell: TellPrincipal): TellPrincipal {
  return (authInfo, extra) => {
    const told: unknown = tell(authInfo, extra);
    if (told === undefined || told === null) return undefined;
    if (!isObject(told) || !NAMES.every((name) => ['string', 'undefined'].includes(typeof told[name])))
      throw badPrincipal();
    if (NAMES.some((name) => told[name])) return told as Principal;
    if (
      typeof told['then'] === 'function' ||
      Object.keys(told).some((key) => !NAMES.includes(key as 'subject'))
    )
      throw badPrincipal();
    return undefined;
  };
}

function badPrincipal(): ValiseError {
  return new ValiseError(
    'bad-principal',
    'The option principal of createValise gave something that is neither undefined nor { issuer?, subject?, client? } with strings.',
    {
      next: 'Return such an object, and not a promise: verify who asks before the request reaches the server.',
    },
  );
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
