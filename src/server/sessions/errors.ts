import { messageOf, ValiseError } from '../../core/errors.ts';
import { isObject } from '../../core/json.ts';
import { INTERNAL_ERROR, INVALID_PARAMS, type Problem, type RpcError } from '../../wire/index.ts';
import type { ServerEventSource } from '../events.ts';
import type { Reply } from '../exchange.ts';
import type { Fault } from '../fault.ts';
import { CallerLimitError } from '../quota.ts';

const INVALID_REQUEST = -32600;
/** The errors that a client may see, and their JSON-RPC codes. The client itself can resolve the first ones. */
const CLIENT_ERRORS: ReadonlyMap<string, number> = new Map([
  ['access-denied', INVALID_REQUEST],
  ['limit-reached', INTERNAL_ERROR],
  ['too-large', INTERNAL_ERROR],
  ['invalid-argument', INTERNAL_ERROR],
]);

/** Returns the error for a client that has reached a limit of sessions. */
export function tooMany(limit: string): ValiseError {
  return new CallerLimitError(`There are too many sessions already (${limit}).`, {
    next: 'Delete one that is no longer needed, or try again later.',
  });
}

/** Returns the error for session state that exceeds a limit. */
export function tooMuch(limit: string): ValiseError {
  return new ValiseError('limit-reached', `The server keeps too much state of sessions already (${limit}).`, {
    next: 'Try again later; or, as the author, keep less in a session.',
  });
}

/** Returns the reply to invalid params. */
export function invalid({ problem, where }: Problem): Reply {
  return { error: { code: INVALID_PARAMS, message: `Invalid params: ${problem} at ${where}` } };
}

/** Wraps what an author's hook has thrown. */
class HookError extends Error {
  override readonly name = 'HookError';

  constructor(cause: unknown) {
    super(messageOf(cause), { cause });
  }
}

/** Wraps an author's hook, so that its errors can be distinguished from all others. */
export function hook<Args extends readonly unknown[], Value>(
  own: ((...args: Args) => Value | Promise<Value>) | undefined,
): ((...args: Args) => Promise<Value>) | undefined {
  return (
    own &&
    (async (...args) => {
      try {
        return await own(...args);
      } catch (error) {
        throw new HookError(error);
      }
    })
  );
}

/** Turns a failure on our side into the client's error. */
export type Failed = (error: unknown) => RpcError;

/**
 * Creates the error mapping.
 *
 * An author's own error keeps its code and message. Other failures, such as of a store, are reported only to the author.
 */
export function failedWith(fault: Fault, events: ServerEventSource): Failed {
  return (error) => {
    const thrown = error instanceof HookError ? error.cause : error;
    if (thrown instanceof ValiseError) {
      const code = thrown instanceof CallerLimitError ? INVALID_REQUEST : CLIENT_ERRORS.get(thrown.code);
      if (thrown.code === 'limit-reached')
        events.emit('rejected', { family: 'sessions', what: thrown.code, reason: thrown.what });
      const error = code === undefined ? fault(thrown) : { code, message: thrown.message };
      return { ...error, data: { ...(error.data as object | undefined), code: thrown.code } };
    }
    return error instanceof HookError ? authored(thrown) : fault(thrown);
  };
}

function authored(error: unknown): RpcError {
  const { code, message, data } = (isObject(error) ? error : {}) as {
    readonly code?: unknown;
    readonly message?: unknown;
    readonly data?: unknown;
  };
  return {
    code: Number.isSafeInteger(code) ? (code as number) : INTERNAL_ERROR,
    message: typeof message === 'string' ? message : 'The session failed.',
    ...(data !== undefined && { data }),
  };
}
