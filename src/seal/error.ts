import { ValiseError } from '../core/errors.ts';

/**
 * Why a token was rejected. Use it in the program and its log only: to peers, all rejections look alike.
 *
 * - `malformed`: not a Valise token, too long, or not in its canonical form
 * - `unknown-key`: sealed with a key that is not (or no longer) in the keyring
 * - `tampered`: altered in transit, or made by somebody without the key
 * - `expired`: expired or not yet valid, or the value it refers to is gone
 * - `wrong-audience`, `wrong-subject`, `wrong-binding`, `wrong-purpose`: sealed for another server, principal, request or use
 * - `replayed`: a single-use token that was used before
 */
export type SealReason =
  | 'malformed'
  | 'unknown-key'
  | 'tampered'
  | 'expired'
  | 'wrong-audience'
  | 'wrong-subject'
  | 'wrong-binding'
  | 'wrong-purpose'
  | 'replayed';

/**
 * Thrown when a token is rejected. The message is the same for every cause, so it is safe to send to the peer. `reason`
 * distinguishes the causes and should stay internal.
 *
 * @example
 * ```ts
 * try {
 *   return sealer.open(token, { purpose: 'round' });
 * } catch (error) {
 *   if (error instanceof SealError && error.reason === 'expired') return startOver();
 *   throw error;
 * }
 * ```
 */
export class SealError extends ValiseError {
  declare readonly code: 'seal-rejected';
  readonly reason: SealReason;

  constructor(reason: SealReason) {
    super('seal-rejected', 'The token was refused.', { next: 'Start over to get a new one.' });
    this.reason = reason;
  }
}
