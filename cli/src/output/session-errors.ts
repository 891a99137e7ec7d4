import { SessionConflictError, SessionGoneError, ValiseError } from 'mcp-valise/client';
import { INVALID_PARAMS, messageOf, sessionErrorIn } from 'mcp-valise/internal';
import { CommandError } from '../errors.ts';
import { shellWord } from './output.ts';

/**
 * Rewords an error about a session or a refused call, with what to do on the command line. Returns other errors unchanged.
 */
export function withCommandAdvice(error: unknown, target: string): unknown {
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
  const { kind } = sessionErrorIn(error) ?? {};
  if (kind === undefined && (error as { readonly code?: unknown }).code === INVALID_PARAMS)
    return new CommandError('call-refused', `${messageOf(error).replace(/\.$/, '')}.`, {
      next: `What there is to call: valise list ${shellWord(target)}`,
      cause: error,
    });
  if (kind !== 'required') return error;
  return new CommandError('session-required', 'The server wants a session for this: Session required.', {
    next: 'Add --session NAME.',
    cause: error,
  });
}
