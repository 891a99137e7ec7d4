import { ValiseError } from '../errors.ts';
import { isObject } from '../json.ts';
import type { ServerContext } from './context.ts';

/** Who asks: from verified auth, never from the bytes of a token, so that a refreshed token is still the same one. */
export interface Principal {
  readonly issuer?: string;
  /** Whom it is about. Without a subject nobody is named: all users of one OAuth client share its `client`. */
  readonly subject?: string;
  readonly client?: string;
}

/** What both SDK majors know about a verified request. */
export interface AuthInfo {
  readonly clientId?: string;
  readonly extra?: Readonly<Record<string, unknown>>;
}

/** Tells who asks. */
export type TellPrincipal = (authInfo: AuthInfo | undefined, extra: unknown) => Principal | undefined;

/** The principal as the SDKs' `authInfo` tells it; undefined if it names no subject. */
export function principalOf(warnOnce: ServerContext['warnOnce']): TellPrincipal {
  return (authInfo) => {
    if (!authInfo) return undefined;
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

/** Checks what an author's function tells: without a subject it is nobody, and what is no principal is an error. */
export function checkedPrincipal(tell: TellPrincipal, warnOnce: ServerContext['warnOnce']): TellPrincipal {
  return (authInfo, extra) => {
    const told: unknown = tell(authInfo, extra);
    if (told === undefined || told === null) return undefined;
    if (!isObject(told)) throw badPrincipal();
    const subject = subjectOf(told['subject']);
    const names = [told['issuer'], told['client'], subject ?? told['subject']];
    if (!names.every((name) => name === undefined || typeof name === 'string')) throw badPrincipal();
    if (subject !== undefined) return { ...(told as Principal), subject };
    // A promise, or an object of another kind.
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

/** A subject as text. Some authorization servers number their users. */
function subjectOf(sub: unknown): string | undefined {
  if (typeof sub === 'number' && Number.isFinite(sub)) return String(sub);
  return typeof sub === 'string' && sub !== '' ? sub : undefined;
}

function badPrincipal(): ValiseError {
  return new ValiseError(
    'bad-principal',
    'The option principal of createValise gave something that is neither undefined nor { subject, issuer?, client? } with strings.',
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
