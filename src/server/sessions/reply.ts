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

const INVALID_REQUEST = -32600;
/** What a client may hear of, by the code that goes with it: the first ones are its own to put right. */
const TOLD: ReadonlyMap<string, number> = new Map([
  ['too-many-sessions', INVALID_REQUEST],
  ['may-not-listen', INVALID_REQUEST],
  ['too-many-subscriptions', INTERNAL_ERROR],
  ['too-many-listeners', INTERNAL_ERROR],
  ['too-many-states', INTERNAL_ERROR],
  ['state-too-large', INTERNAL_ERROR],
  ['bad-state-value', INTERNAL_ERROR],
]);

/** The answer to params that cannot be. */
export function invalid({ problem, where }: Problem): Reply {
  return { error: { code: INVALID_PARAMS, message: `Invalid params: ${problem} at ${where}` } };
}

/** What an author's hook has thrown. */
class HookError extends Error {
  override readonly name = 'HookError';

  constructor(cause: unknown) {
    super(messageOf(cause), { cause });
  }
}

/** Tells errors of an author's hook from all others. */
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

/** The answer where something on our side failed. */
export type Failed = (error: unknown) => RpcError;

/** An author's own error keeps its code and words, as in a handler; what else failed, a store above all, only the author hears. */
export function failedWith(fault: Fault, events: ServerEventSource): Failed {
  return (error) => {
    const thrown = error instanceof HookError ? error.cause : error;
    if (thrown instanceof ValiseError) {
      const told = TOLD.get(thrown.code);
      if (thrown.code.startsWith('too-many-'))
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

/** What a peer is told of a session: the number of its state only where it knows what that is. */
export function toldTo(exchange: Exchange, session: SessionMeta): SessionMeta {
  if (session.seq === undefined || knowsUs(exchange)) return session;
  const { seq: _, ...others } = session;
  return others;
}

const PLACES = ['extensions', 'experimental'];

/** True for a client that uses our names or announces them: it knows what no draft names. */
export function knowsUs({ spelling, peer: { capabilities } }: Exchange): boolean {
  if (spelling.sessions === 'modern') return true;
  for (const place of PLACES) {
    const named = capabilities?.[place];
    if (isObject(named) && isObject(named['dev.valise/sessions'])) return true;
  }
  return false;
}
