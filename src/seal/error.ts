import { ValiseError } from '../errors.ts';

/**
 * Why a token was refused. For the program and its log only: outwardly all refusals look alike.
 *
 * - `malformed`: no token of ours, too long, or not in its one canonical spelling
 * - `unknown-key`: sealed with a key that is not (or no longer) in the keyring
 * - `tampered`: altered on its way, or made by somebody without the key
 * - `expired`: its time is over (or has not begun), or what it refers to is gone
 * - `wrong-audience`, `wrong-subject`, `wrong-binding`, `wrong-purpose`: sealed for another server, principal, request or use
 * - `replayed`: used before, where a token may be used once
 */
export type SealErrorCode =
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
 * A token was refused. The message is one and the same for every cause, so that it can go out as it is;
 * `code` tells the causes apart and should stay inside.
 *
 * @example
 * ```ts
 * try {
 *   return sealer.open(token, { purpose: 'round' });
 * } catch (error) {
 *   if (error instanceof SealError && error.code === 'expired') return startOver();
 *   throw error;
 * }
 * ```
 */
export class SealError extends ValiseError {
  declare readonly code: SealErrorCode;

  constructor(code: SealErrorCode) {
    super(code, 'The token was refused.', { next: 'Start over to get a new one.' });
  }
}
