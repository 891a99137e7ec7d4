import { ValiseError } from '../../core/errors.ts';
import { isObject } from '../../core/json.ts';
import { METHOD_NOT_FOUND, readSessionError, type SessionErrorReading } from '../../wire/index.ts';

/** The codes for an invalid request and for invalid params. */
const REFUSALS: ReadonlySet<number> = new Set([-32600, -32602]);

/** Thrown when the server no longer knows a session. Create a new one, or set `onGone: 'recreate'`. */
export class SessionGoneError extends ValiseError {
  readonly sessionId: string;
  readonly label: string | undefined;
  /** Whether the call had begun when its session ended. It may have had effects, and was not retried. */
  readonly hasBegun: boolean;

  constructor(
    sessionId: string,
    label: string | undefined,
    cause?: unknown,
    hasBegun = sessionErrorIn(cause)?.begun === true,
  ) {
    super(
      'session-gone',
      `The server no longer knows the session${label === undefined ? '' : ` ${JSON.stringify(label)}`}.`,
      {
        next: hasBegun
          ? 'The call had begun: see what it has done before you make it again.'
          : "Make a new one, or give the session onGone: 'recreate'.",
        cause,
      },
    );
    this.sessionId = sessionId;
    this.label = label;
    this.hasBegun = hasBegun;
  }
}

/** Thrown when others changed the session's state again and again while the call ran. No change of the call was stored. */
export class SessionConflictError extends ValiseError {
  /** The data of the call's error. If the call had asked something, `pending` names its round. */
  readonly data: unknown;

  constructor(cause?: unknown) {
    super(
      'session-conflict',
      "Others changed the session's state while the call ran, and nothing of it was kept.",
      {
        next: "Try again, or give the session ordering: 'serial'.",
        cause,
      },
    );
    this.data = isObject(cause) ? cause['data'] : undefined;
  }
}

/**
 * Returns the error for a server that was replaced by one without sessions. The call was not sent; the server may have
 * sessions again later.
 */
export function sessionsLacking(label: string | undefined): ValiseError {
  const which = label === undefined ? '' : ` ${JSON.stringify(label)}`;
  return new ValiseError(
    'no-sessions',
    `The server announces no sessions, so that a call in the session${which} would run in none; it was not sent.`,
    { next: 'Call it outside of session.run(), or ask its operator whether it was replaced by mistake.' },
  );
}

/** Reads what a server's error says about a session, regardless of how an SDK or Valise wraps it. */
export function sessionErrorIn(error: unknown): SessionErrorReading | undefined {
  if (!isObject(error)) return undefined;
  return readSessionError({ ...rpcOf(error), message: error['message'] });
}

/** Whether the server does not know the method. */
export function isUnknownMethod(error: unknown): boolean {
  return isObject(error) && rpcOf(error).code === METHOD_NOT_FOUND;
}

/** Whether the server returned an error that a retry would not change, unless the caller changes the request. */
export function isRefused(error: unknown): boolean {
  return isObject(error) && REFUSALS.has(rpcOf(error).code as number);
}

function rpcOf({ rpcCode, code, data }: Record<string, unknown>): {
  readonly code: unknown;
  readonly data: unknown;
} {
  return { code: rpcCode ?? code, data };
}
