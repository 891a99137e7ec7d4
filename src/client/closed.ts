import { ValiseError } from '../errors.ts';

/** Returns the error for a Valise that has been closed. */
export function closedError(): ValiseError {
  return new ValiseError('closed', 'This Valise has been closed.', {
    next: 'Close it last, or open another one with openValise().',
  });
}
