import { SessionConflictError, SessionGoneError } from '../client/index.ts';
import { sessionErrorIn } from '../client/sessions/errors.ts';
import { ValiseError } from '../errors.ts';

/** An error about a session, with what can be done about it on the command line; any other as it is. */
export function inCommandWords(error: unknown): unknown {
  if (error instanceof SessionGoneError) {
    const { label, hasBegun } = error;
    return new ValiseError(
      'session-gone',
      `The server no longer knows the session ${JSON.stringify(label)}.`,
      {
        next: hasBegun
          ? 'The call had begun: see what it has done before you make it again. A new session of that name is made then.'
          : 'It is forgotten here too: call again, and a new one of that name is made.',
        cause: error,
      },
    );
  }
  if (error instanceof SessionConflictError) {
    return new ValiseError('session-conflict', 'Others changed the session while the call ran.', {
      next: 'Nothing of the call was kept: try again.',
      cause: error,
    });
  }
  if (sessionErrorIn(error)?.kind !== 'required') return error;
  return new ValiseError('session-required', 'The server wants a session for this: Session required.', {
    next: 'Add --session NAME.',
    cause: error,
  });
}
