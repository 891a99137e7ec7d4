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

/** Reads the answer to a question. The session that it names is for us, not for the handler. */
export function readAnswer(response: Response): Brought {
  if (!('result' in response)) return { answer: { error: response.error }, session: undefined };
  const { result } = response;
  const session = readSession(result._meta);
  if (!isSession(session)) return { answer: safeAnswer({ result }), session: undefined };
  return { answer: safeAnswer({ result: { ...result, _meta: withoutSession(result._meta) } }), session };
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
  const own = o.p?._meta;
  const spelling = spellingUsed(own).sessions ?? 'legacy';
  const _meta = { ...withoutSession(own), [NAMES[spelling].session]: { sessionId, state } };
  return { context: { ...context, o: { ...o, p: { ...o.p, _meta } } }, isBehind: false };
}

const behind = new Slot<true>();

/** Notes where a handler that has waited goes on in the session as it was, though the answer does not say that it still is so. */
export function noteWaited(exchange: Exchange, present: SessionMeta | undefined): void {
  const session = readSession(exchange.request.params?._meta);
  if (isSession(session) && session.state !== present?.state) behind.set(exchange, true);
}

/** True where a call goes on after an answer in what may no longer be the state of its session. */
export function isBehind(exchange: Exchange): boolean {
  return exchange.edgeContext?.answered?.isBehind === true || behind.get(exchange) === true;
}

/** Whichever way a client spells it: the one that is read first would win over what is written. */
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
