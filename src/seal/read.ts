import { tell } from '../events.ts';
import { canonicalJson } from './canonical.ts';
import { type Cipher, idOfOpened, type Opened } from './cipher.ts';
import { type Claims, digestOf, type Kind, REFERENCE, sameDigest } from './claims.ts';
import { SealError, type SealReason } from './error.ts';
import { isCompressed, readPlaintext } from './plaintext.ts';
import { purposeOf, type Settings, subjectTextOf } from './settings.ts';
import type { OpenOptions, RejectEvent, TokenDescription } from './types.ts';

/** The reading half of a sealer. */
export interface Reader {
  /** Returns a genuine token of one of the kinds that matches the options. Throws otherwise. */
  read(token: string, options: OpenOptions, kind: Kind, otherKind?: Kind): Genuine;
  /** Like `read`, for any purpose, principal, request and time. */
  authenticate(token: string): Genuine;
  /** Returns the description of a genuine token. */
  describe(genuine: Genuine): TokenDescription;
  /** Calls the listener and throws. Every rejection goes through here, so that all of them look alike. */
  refuse(event: RejectEvent): never;
}

/** A genuine token. */
export interface Genuine {
  readonly claims: Claims;
  /** Valid until the next token is sealed or opened. */
  readonly opened: Opened;
  readonly bytes: number;
}

export function createReader({ audience, skew, maxBytes, onReject, now }: Settings, cipher: Cipher): Reader {
  /** Checks in this order: byte limit, canonical form, key, cipher, then parse. */
  const unseal = (token: string): Genuine | SealReason => {
    const opened = cipher.open(token);
    if (typeof opened === 'string') return opened;
    const claims = readPlaintext(opened.plaintext, maxBytes);
    return claims === undefined ? 'malformed' : { claims, opened, bytes: token.length };
  };

  const isOver = (claims: Claims): boolean => {
    const time = now() / 1000;
    return time >= claims[1] + skew || time < claims[0] - skew;
  };

  const faultOf = (
    { claims, opened }: Genuine,
    options: OpenOptions,
    purpose: string,
  ): SealReason | undefined => {
    const id = claims[4] === 0 && claims[5] === 0 ? '' : idOfOpened(opened);
    // All checks run before one is reported, so that the time a rejection takes does not reveal its cause.
    const over = isOver(claims);
    const subjectFits = fits(claims[4], 'subject', id, subjectTextOf(options));
    const bindingFits = fits(claims[5], 'binding', id, bindingTextOf(options));
    if (over) return 'expired';
    if (claims[3] !== audience) return 'wrong-audience';
    if (!subjectFits) return 'wrong-subject';
    if (!bindingFits) return 'wrong-binding';
    return claims[2] === purpose ? undefined : 'wrong-purpose';
  };

  const describe = ({ claims, opened, bytes }: Genuine): TokenDescription => ({
    version: 1,
    kid: opened.kid,
    bytes,
    sealedBytes: opened.plaintext.length,
    id: idOfOpened(opened),
    issuedAt: new Date(claims[0] * 1000),
    expiresAt: new Date(claims[1] * 1000),
    expired: isOver(claims),
    purpose: claims[2],
    audience: claims[3],
    hasSubject: claims[4] !== 0,
    isBound: claims[5] !== 0,
    isReference: claims[6] === REFERENCE,
    compressed: isCompressed(opened.plaintext),
  });

  const refuse = (event: RejectEvent): never => {
    // An error in the listener must neither open the token nor change how the rejection looks.
    if (onReject) tell(onReject, event);
    throw new SealError(event.reason);
  };

  return {
    describe,
    refuse,

    read(token, options, kind, otherKind = kind) {
      const purpose = purposeOf(options);
      const genuine = unseal(token);
      if (typeof genuine === 'string') return refuse({ reason: genuine, purpose });
      const fault = faultOf(genuine, options, purpose) ?? kindFault(genuine, kind, otherKind);
      if (fault !== undefined) return refuse({ reason: fault, purpose, token: describe(genuine) });
      return genuine;
    },

    authenticate(token) {
      const genuine = unseal(token);
      return typeof genuine === 'string' ? refuse({ reason: genuine, purpose: undefined }) : genuine;
    },
  };
}

/** Rejects a token kept in a store that is presented directly, and a reference that is presented as the value. */
function kindFault({ claims }: Genuine, kind: Kind, otherKind: Kind): SealReason | undefined {
  return claims[6] === kind || claims[6] === otherKind ? undefined : 'wrong-purpose';
}

/** Whether a claim was sealed with this text, or both are absent. */
function fits(
  claim: string | 0,
  label: 'subject' | 'binding',
  id: string,
  text: string | undefined,
): boolean {
  if (claim === 0 || text === undefined) return claim === 0 && text === undefined;
  return sameDigest(claim, digestOf(label, id, text));
}

/**
 * Returns the text to bind to. A value from a request may be too deep or malformed to bind to. Nothing was ever sealed
 * for such a value, so it becomes '', which matches no digest.
 */
function bindingTextOf({ bind }: OpenOptions): string | undefined {
  if (bind === undefined) return undefined;
  try {
    return canonicalJson(bind);
  } catch {
    return '';
  }
}
