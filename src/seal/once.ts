import { ValiseError } from '../errors.ts';
import type { Reader } from './read.ts';
import type { Settings } from './settings.ts';
import type { OpenOptions, TokenDescription } from './types.ts';

/** Marks a token as used. Rejects if it was used before, or if that cannot be determined. */
export type MarkUsed = (token: TokenDescription, options: OpenOptions) => Promise<void>;

export function createMarkUsed({ ledger, skew, now }: Settings, reader: Reader): MarkUsed {
  return async (token, options) => {
    if (!ledger) {
      throw new ValiseError(
        'invalid-argument',
        'A token cannot be opened once without a ledger of used ones.',
        {
          next: 'Give createSealer() a ledger: storeLedger(store), or memoryLedger() for one process.',
        },
      );
    }
    // The entry must outlive the token even if the clock of the ledger is ahead of this one.
    const ttl = Math.max(1, Math.ceil(token.expiresAt.getTime() / 1000 + 2 * skew - now() / 1000));
    let first: boolean;
    try {
      first = await ledger.claim(token.id, ttl);
    } catch (cause) {
      throw new ValiseError(
        'not-saved',
        'The ledger of used tokens did not answer, so the token stays closed.',
        {
          next: 'Try again once the ledger works.',
          cause,
        },
      );
    }
    if (first !== true) reader.refuse({ reason: 'replayed', purpose: options.purpose, token });
  };
}
