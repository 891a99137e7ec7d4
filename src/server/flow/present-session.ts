import {
  type Answer,
  isSession,
  NAMES,
  type Response,
  readSession,
  type SessionMeta,
} from '../../wire/index.ts';
import type { RoundContext } from './context.ts';

/** An answer, and the session that it names. */
interface Brought {
  readonly answer: Answer;
  readonly session: SessionMeta | undefined;
}

/** Reads the answer to a question. The session that it names is for us, not for the handler. */
export function readAnswer(response: Response): Brought {
  if (!('result' in response)) return { answer: { error: response.error }, session: undefined };
  const { result } = response;
  const session = readSession(result._meta);
  if (!isSession(session)) return { answer: { result }, session: undefined };
  const { [NAMES.legacy.session]: _, ..._meta } = result._meta ?? {};
  return { answer: { result: { ...result, _meta } }, session };
}

/**
 * A call that went out with its session's state goes on with the present one, where the answer has brought that: other
 * calls may have changed it since. What it brings proves itself like that of every request; it is never another session.
 */
export function inPresent(
  context: RoundContext,
  present: SessionMeta | undefined,
): { readonly context: RoundContext; readonly isBehind: boolean } {
  const { o } = context;
  const session = readSession(o?.p?._meta);
  if (!o || !isSession(session)) return { context, isBehind: false };
  // A session that is in the store has no state to bring.
  if (present?.sessionId !== session.sessionId || present.state === undefined)
    return { context, isBehind: true };
  const { sessionId, state } = present;
  const _meta = { ...o.p?._meta, [NAMES.legacy.session]: { sessionId, state } };
  return { context: { ...context, o: { ...o, p: { ...o.p, _meta } } }, isBehind: false };
}
