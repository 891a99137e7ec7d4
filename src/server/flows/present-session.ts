import {
  type Answer,
  DRAFTS,
  isSession,
  type Meta,
  NAMES,
  type Response,
  readSession,
  type SessionMeta,
} from '../../wire/index.ts';
import { spellingUsed } from '../../wire/spelling.ts';
import type { Exchange } from '../exchange.ts';
import { Slot } from '../slot.ts';
import type { RoundContext } from './context.ts';
import { safeAnswer } from './question.ts';

/** An answer, and the session that it names. */
export interface Brought {
  readonly answer: Answer;
  readonly session: SessionMeta | undefined;
}

/** Reads the answer to a question, and removes the session that it names, which is not for the handler. */
export function readAnswer(response: Response): Brought {
  if (!('result' in response)) return { answer: { error: response.error }, session: undefined };
  const { result } = response;
  const session = readSession(result._meta);
  if (!isSession(session)) return { answer: safeAnswer({ result }), session: undefined };
  return { answer: safeAnswer({ result: { ...result, _meta: withoutSession(result._meta) } }), session };
}

/**
 * Updates a call to the present state of its session, if the answer has brought that state.
 *
 * Other calls may have changed the session since the call was sent. The present state must prove itself like that of every
 * request, and it is never that of another session.
 */
export function inPresent(
  context: RoundContext,
  present: SessionMeta | undefined,
): { readonly context: RoundContext; readonly isBehind: boolean } {
  const { o } = context;
  const session = readSession(o?.p?._meta);
  if (!o || !isSession(session)) return { context, isBehind: false };
  // A session in the store has no state to send.
  if (present?.sessionId !== session.sessionId || present.state === undefined)
    return { context, isBehind: true };
  const { sessionId, state } = present;
  const own = o.p?._meta;
  const spelling = spellingUsed(own).sessions ?? 'legacy';
  const _meta = { ...withoutSession(own), [NAMES[spelling].session]: { sessionId, state } };
  return { context: { ...context, o: { ...o, p: { ...o.p, _meta } } }, isBehind: false };
}

const behind = new Slot<true>();

/** Records that a handler that waited continues with a session state that the answer does not confirm as current. */
export function noteWaited(exchange: Exchange, present: SessionMeta | undefined): void {
  const session = readSession(exchange.request.params?._meta);
  if (isSession(session) && session.state !== present?.state) behind.set(exchange, true);
}

/** Whether a call continues after an answer with a session state that may be outdated. */
export function isBehind(exchange: Exchange): boolean {
  return exchange.edgeContext?.answered?.isBehind === true || behind.get(exchange) === true;
}

/** Removes the session in every spelling, since the one that is read first would override what is written. */
function withoutSession(meta: Meta | undefined): Meta {
  const {
    [NAMES.modern.session]: _modern,
    [NAMES.legacy.session]: _legacy,
    [DRAFTS.session]: _draft,
    [NAMES.modern.seq]: _seq,
    ...others
  } = meta ?? {};
  return others;
}
