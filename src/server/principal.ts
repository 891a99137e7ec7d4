import { ValiseError } from '../core/errors.ts';
import { isObject } from '../core/json.ts';
import { lazy } from '../core/lazy.ts';
import type { ServerContext } from './context.ts';

/**
 * The person or program that makes a request, identified by verified auth.
 *
 * It never depends on the bytes of a token, so that a refreshed token still means the same principal.
 */
export interface Principal {
  readonly issuer?: string;
  /** The user. Without a subject the caller is anonymous, because all users of one OAuth client share its `client`. */
  readonly subject?: string;
  readonly client?: string;
}

/** The part of a verified request's auth that both SDK majors provide. */
export interface AuthInfo {
  readonly clientId?: string;
  readonly extra?: Readonly<Record<string, unknown>>;
}

/** Returns the principal of a request. `isLocal` says that it came over stdio, from whoever has started this process. */
export type TellPrincipal = (
  authInfo: AuthInfo | undefined,
  extra: unknown,
  isLocal?: boolean,
) => Principal | undefined;

/** What an author's function may return: `null` means anonymous, also over stdio. */
export type ToldPrincipal = (authInfo: AuthInfo | undefined, extra: unknown) => Principal | null | undefined;

/** The user whom this process belongs to, who is the principal over stdio. */
const localUser = lazy((): Principal => {
  const uid = process.getuid?.();
  const subject = uid === undefined ? process.env['USERNAME'] : `uid ${uid}`;
  return { issuer: 'stdio', subject: subject || 'user' };
});

/** Creates the function that reads the principal from the SDKs' `authInfo`. It returns undefined if there is no subject. */
export function principalOf(warnOnce: ServerContext['warnOnce']): TellPrincipal {
  return (authInfo, _extra, isLocal) => {
    if (!authInfo) return isLocal ? localUser() : undefined;
    const { iss, sub } = authInfo.extra ?? {};
    const { clientId } = authInfo;
    const subject = subjectOf(sub);
    if (subject === undefined) {
      warnOnce('no-subject', {
        what: 'Verified auth names no subject (authInfo.extra.sub), so the caller is served as nobody: all users of one OAuth client would else be one principal.',
        next: 'Have the token verifier put the user into extra.sub, or give createValise the option principal, such as principal: (authInfo) => authInfo && { subject: userIdOf(authInfo) }.',
      });
      return undefined;
    }
    return {
      ...(typeof iss === 'string' && { issuer: iss }),
      subject,
      ...(typeof clientId === 'string' && clientId !== '' && { client: clientId }),
    };
  };
}

const NAMES = ['issuer', 'subject', 'client'] as const;

/** Checks the result of an author's function. Without a subject the caller is anonymous; an invalid principal is an error. */
export function checkedPrincipal(tell: ToldPrincipal, warnOnce: ServerContext['warnOnce']): TellPrincipal {
  return (authInfo, extra, isLocal) => {
    const told: unknown = tell(authInfo, extra);
    if (told === undefined && isLocal) return localUser();
    if (told === undefined || told === null) return undefined;
    if (!isObject(told)) throw badPrincipal();
    const subject = subjectOf(told['subject']);
    const names = [told['issuer'], told['client'], subject ?? told['subject']];
    if (!names.every((name) => name === undefined || typeof name === 'string')) throw badPrincipal();
    if (subject !== undefined) return { ...(told as Principal), subject };
    // The result is a promise, or an object of another kind.
    if (
      typeof told['then'] === 'function' ||
      Object.keys(told).some((key) => !NAMES.includes(key as 'subject'))
    )
      throw badPrincipal();
    if (names.some((name) => name))
      warnOnce('no-subject', {
        what: 'The option principal of createValise names no subject, so the caller is served as nobody.',
        next: 'Return { subject } with what tells this caller from all others.',
      });
    return undefined;
  };
}

/** Returns a subject as text. Some authorization servers number their users. */
function subjectOf(sub: unknown): string | undefined {
  if (typeof sub === 'number' && Number.isFinite(sub)) return String(sub);
  return typeof sub === 'string' && sub !== '' ? sub : undefined;
}

function badPrincipal(): ValiseError {
  return new ValiseError(
    'invalid-argument',
    'The option principal of createValise gave something that is neither undefined nor { subject, issuer?, client? } with strings.',
    {
      next: 'Return such an object, and not a promise: verify who asks before the request reaches the server.',
    },
  );
}

/** Returns a text that is unique to the principal, for keys and seals. */
export function principalKey(principal: Principal | undefined): string | undefined {
  return (
    principal &&
    JSON.stringify([principal.issuer ?? null, principal.subject ?? null, principal.client ?? null])
  );
}

/** Returns the `authInfo` that a transport passes along with a message. Both majors use this name. */
export function authInfoOf(extra: unknown): AuthInfo | undefined {
  const info = isObject(extra) ? extra['authInfo'] : undefined;
  return isObject(info) ? (info as AuthInfo) : undefined;
}
