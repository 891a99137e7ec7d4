import { ValiseError } from '../errors.ts';

/** What a Valise says that has been closed. */
export function closedError(): ValiseError {
  return new ValiseError('valise-closed', 'This Valise has been closed.', {
    next: 'Close it last, or open another one with openValise().',
  });
}
