import { tell } from '../events.ts';
import { canonicalJson } from './canonical.ts';
import { type Cipher, idOfOpened, type Opened } from './cipher.ts';
import { type Claims, digestOf, type Kind, REFERENCE, sameDigest } from './claims.ts';
import { SealError, type SealErrorCode } from './error.ts';
import { isCompressed, readPlaintext } from './plaintext.ts';
import { purposeOf, type Settings, subjectTextOf } from './settings.ts';
import type { OpenOptions, RejectEvent, TokenDescription } from './types.ts';

/** The reading half of a sealer. */
export interface Reader {
  /** A genuine token of one of the kinds that meets the options; throws where it does not. */
  read(token: string, options: OpenOptions, kind: Kind, otherKind?: Kind): Genuine;
  /** Like `read`, for whatever purpose, principal, request and time. */
  authenticate(token: string): Genuine;
  /** What a genuine token says about itself. */
  describe(genuine: Genuine): TokenDescription;
  /** Tells the listener and throws. Every refusal is made here, so that all of them look alike. */
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
  /** Byte cap, canonical spelling, key, cipher, then parse, in this order. */
  const unseal = (token: string): Genuine | SealErrorCode => {
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
  ): SealErrorCode | undefined => {
    const id = claims[4] === 0 && claims[5] === 0 ? '' : idOfOpened(opened);
    // All are looked at before one is named: how long a refusal takes must not say which one it was.
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
    // A listener's own mistake must neither open the token nor change how the refusal looks.
    if (onReject) tell(onReject, event);
    throw new SealError(event.code);
  };

  return {
    describe,
    refuse,

    read(token, options, kind, otherKind = kind) {
      const purpose = purposeOf(options);
      const genuine = unseal(token);
      if (typeof genuine === 'string') return refuse({ code: genuine, purpose });
      const fault = faultOf(genuine, options, purpose) ?? kindFault(genuine, kind, otherKind);
      if (fault !== undefined) return refuse({ code: fault, purpose, token: describe(genuine) });
      return genuine;
    },

    authenticate(token) {
      const genuine = unseal(token);
      return typeof genuine === 'string' ? refuse({ code: genuine, purpose: undefined }) : genuine;
    },
  };
}

/** A token kept in a store is not for carrying, and one that names it is not the value. */
function kindFault({ claims }: Genuine, kind: Kind, otherKind: Kind): SealErrorCode | undefined {
  return claims[6] === kind || claims[6] === otherKind ? undefined : 'wrong-purpose';
}

/** True where a claim was sealed with this text, or where there is neither. */
function fits(
  claim: string | 0,
  label: 'subject' | 'binding',
  id: string,
  text: string | undefined,
): boolean {
  if (claim === 0 || text === undefined) return claim === 0 && text === undefined;
  return sameDigest(claim, digestOf(label, id, text));
}

/** What came with a request may be too deep or odd to bind to; then nothing was ever sealed for it, and '' fits no digest. */
function bindingTextOf({ bind }: OpenOptions): string | undefined {
  if (bind === undefined) return undefined;
  try {
    return canonicalJson(bind);
  } catch {
    return '';
  }
}
