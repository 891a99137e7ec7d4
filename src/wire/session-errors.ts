import { isObject } from '../json.ts';
import type { RpcError } from './message.ts';
import { DRAFTS, type Era, NAMES } from './names.ts';
import { isSessionId } from './session.ts';

/** What an error says about a session. */
export interface SessionErrorReading {
  readonly kind: 'not-found' | 'required' | 'conflict';
  readonly sessionId?: string;
  /** True where the call had begun: a handler has run, and may have had effects. */
  readonly begun?: true;
}

/**
 * The answer to a session that is unknown, foreign, expired, revoked or forged: one and the same. `begun`: a handler has
 * been at work on the call, so that making it once more could do everything twice.
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

/** The answer to an operation that needs a session and got none. */
export function sessionRequired(era: Era): RpcError {
  return { code: NAMES[era].code.sessionRequired, message: 'Session required' };
}

/** The answer where others changed the session's state again and again while the operation ran. Nothing was changed. */
export function sessionConflict(era: Era, sessionId: string): RpcError {
  return { code: NAMES[era].code.sessionConflict, message: 'Session conflict', data: { sessionId } };
}

/**
 * Recognises a session error of any draft. -32043 has had two meanings: "required" in the second and third draft,
 * "not found" since. The message tells them apart, and so does whether the request named a session at all (`sent`).
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
