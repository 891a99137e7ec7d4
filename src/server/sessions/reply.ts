import { messageOf, ValiseError } from '../../errors.ts';
import { isObject } from '../../json.ts';
import {
  INTERNAL_ERROR,
  INVALID_PARAMS,
  type Problem,
  type RpcError,
  type SessionMeta,
} from '../../wire/index.ts';
import type { ServerEventSource } from '../events.ts';
import type { Exchange, Reply } from '../exchange.ts';
import type { Fault } from '../fault.ts';
import { CallerLimitError } from '../quota.ts';

const INVALID_REQUEST = -32600;
/** The errors that a client may see, and their JSON-RPC codes. The client itself can resolve the first ones. */
const TOLD: ReadonlyMap<string, number> = new Map([
  ['access-denied', INVALID_REQUEST],
  ['limit-reached', INTERNAL_ERROR],
  ['too-large', INTERNAL_ERROR],
  ['invalid-argument', INTERNAL_ERROR],
]);

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

/** Wraps an author's hook, so that its errors can be told from all others. */
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
      const told = thrown instanceof CallerLimitError ? INVALID_REQUEST : TOLD.get(thrown.code);
      if (thrown.code === 'limit-reached')
        events.emit('rejected', { family: 'sessions', what: thrown.code, reason: thrown.what });
      const error = told === undefined ? fault(thrown) : { code: told, message: thrown.message };
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

/** Returns the session as the client gets it. The number of its state is included only if the client knows what that is. */
export function toldTo(exchange: Exchange, session: SessionMeta): SessionMeta {
  if (session.seq === undefined || knowsUs(exchange)) return session;
  const { seq: _, ...others } = session;
  return others;
}

const PLACES = ['extensions', 'experimental'];

/** Whether a client uses or announces our names, so that it knows what no draft names. */
export function knowsUs({ spelling, peer: { capabilities } }: Exchange): boolean {
  if (spelling.sessions === 'modern') return true;
  for (const place of PLACES) {
    const named = capabilities?.[place];
    if (isObject(named) && isObject(named['dev.valise/sessions'])) return true;
  }
  return false;
}
