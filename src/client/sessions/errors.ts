import { ValiseError } from '../../errors.ts';
import { isObject } from '../../json.ts';
import { METHOD_NOT_FOUND, readSessionError, type SessionErrorReading } from '../../wire/index.ts';

/** Invalid request and invalid params. */
const REFUSALS: ReadonlySet<number> = new Set([-32600, -32602]);

/** The server no longer knows a session. It is gone for good: make a new one, or let `onGone: 'recreate'` do that. */
export class SessionGoneError extends ValiseError {
  readonly sessionId: string;
  readonly label: string | undefined;
  /** True where the call had begun when its session ended: it may have had effects, and was not made again. */
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

/** Others changed the session's state again and again while the call ran. Nothing of the call was kept. */
export class SessionConflictError extends ValiseError {
  /** What the error of the call says besides: `pending` names its round, where it had asked something. */
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

/** The server was replaced by one that would run the call in no session. It may have sessions again later. */
export function sessionsLacking(label: string | undefined): ValiseError {
  const which = label === undefined ? '' : ` ${JSON.stringify(label)}`;
  return new ValiseError(
    'no-sessions',
    `The server announces no sessions, so that a call in the session${which} would run in none; it was not sent.`,
    { next: 'Call it outside of session.run(), or ask its operator whether it was replaced by mistake.' },
  );
}

/** What a server's error says about a session, however an SDK or Valise wraps it. */
export function sessionErrorIn(error: unknown): SessionErrorReading | undefined {
  if (!isObject(error)) return undefined;
  return readSessionError({ ...rpcOf(error), message: error['message'] });
}

/** True where the server does not know the method. */
export function isUnknownMethod(error: unknown): boolean {
  return isObject(error) && rpcOf(error).code === METHOD_NOT_FOUND;
}

/** True where the server has answered with an error that asking again does not change, or that only whoever asks can change. */
export function isRefused(error: unknown): boolean {
  return isObject(error) && REFUSALS.has(rpcOf(error).code as number);
}

function rpcOf({ rpcCode, code, data }: Record<string, unknown>): {
  readonly code: unknown;
  readonly data: unknown;
} {
  return { code: rpcCode ?? code, data };
}
