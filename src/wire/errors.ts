import { isObject } from '../core/json.ts';
import type { RpcError } from '../core/message.ts';
import { DRAFTS, type Era, NAMES } from './names.ts';
import { isSessionId } from './session.ts';

/**
 * The outcome of a failed request. `not-done`: nothing was kept, so the request is safe to send again. `unknown`:
 * sending it again may do it twice.
 */
export type Outcome = 'not-done' | 'unknown';

/** Returns the error with an outcome in its data. An existing outcome is kept. */
export function withOutcome(error: RpcError, outcome: Outcome): RpcError {
  const data = isObject(error.data) ? error.data : {};
  return { ...error, data: { ...data, [NAMES.modern.outcome]: outcomeIn(error) ?? outcome } };
}

/** Returns the outcome that an error states, or undefined if it states none. */
export function outcomeIn({ data }: { readonly data?: unknown }): Outcome | undefined {
  const outcome = isObject(data) ? data[NAMES.modern.outcome] : undefined;
  return outcome === 'not-done' || outcome === 'unknown' ? outcome : undefined;
}

/** The session error that an error response states. */
export interface SessionErrorReading {
  readonly kind: 'not-found' | 'required' | 'conflict';
  readonly sessionId?: string;
  /** Present if the call had started: a handler ran and may have had side effects. */
  readonly begun?: true;
}

/**
 * Returns the same error for a session that is unknown, foreign, expired, revoked or forged. `begun` says that a
 * handler has already worked on the call, so a repeated call could do everything twice.
 */
export function sessionNotFound(
  era: Era,
  sessionId: string,
  { begun = false }: { readonly begun?: boolean } = {},
): RpcError {
  const { code, begun: name } = NAMES[era];
  const data = begun ? { sessionId, [name]: true } : { sessionId };
  return { code: code.sessionNotFound, message: 'Session not found', data };
}

/** Returns the error for an operation that requires a session and got none. */
export function sessionRequired(era: Era): RpcError {
  return { code: NAMES[era].code.sessionRequired, message: 'Session required' };
}

/** Returns the error for an operation that gave up because others kept changing the session's state. Nothing was changed. */
export function sessionConflict(era: Era, sessionId: string): RpcError {
  return { code: NAMES[era].code.sessionConflict, message: 'Session conflict', data: { sessionId } };
}

/**
 * Recognizes a session error of any draft. The code -32043 means "required" in the second and third draft and "not
 * found" since then. The message and whether the request named a session (`sent`) tell them apart.
 *
 * @example
 * ```ts
 * if (readSessionError(response.error, { sent: true })?.kind === 'not-found') forget(sessionId);
 * ```
 */
export function readSessionError(
  error: unknown,
  { sent = true }: { readonly sent?: boolean } = {},
): SessionErrorReading | undefined {
  if (!isObject(error)) return undefined;
  const kind = kindOf(error, sent);
  if (kind === undefined) return undefined;
  const { sessionId, [NAMES.modern.begun]: begun } = isObject(error.data) ? error.data : {};
  return { kind, ...(isSessionId(sessionId) && { sessionId }), ...(begun === true && { begun }) };
}

function kindOf(
  { code, message }: Record<string, unknown>,
  sent: boolean,
): SessionErrorReading['kind'] | undefined {
  const { legacy, modern } = NAMES;
  const saysRequired = typeof message === 'string' && /\bsession required\b/i.test(message.slice(0, 200));
  switch (code) {
    case modern.code.sessionNotFound:
    case DRAFTS.code.sessionNotFound:
      return 'not-found';
    case modern.code.sessionRequired:
    case legacy.code.sessionRequired:
      return 'required';
    case modern.code.sessionConflict:
      return 'conflict';
    case legacy.code.sessionNotFound:
      return saysRequired || !sent ? 'required' : 'not-found';
    case DRAFTS.code.sessionRequired:
      return saysRequired ? 'required' : undefined;
    default:
      return undefined;
  }
}
