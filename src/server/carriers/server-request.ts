import { raise, type Top } from '../../edge/drafts.ts';
import { SealError, type SealReason } from '../../seal/index.ts';
import type { Id, Request, Response } from '../../wire/index.ts';
import { readQuestionId, writeQuestionId } from '../../wire/question-id.ts';
import type { SendRound } from '../exchange.ts';
import { type FlowContext, stateText } from '../flows/codec.ts';
import {
  type Answered,
  type Continuation,
  readAnswer,
  withCall,
  withPresentSession,
} from '../flows/continuation.ts';
import type { ContinuationStore } from '../flows/continuation-store.ts';
import type { Question } from '../flows/question.ts';
import { isUnknownKey } from '../own-keys.ts';
import type { Round } from './input-required.ts';

/** The purpose of a state that comes back with the answer alone. */
const ANSWER_PURPOSE = 'round-answer';
/** The purpose of a state that comes back as the answer's id. */
const ID_PURPOSE = 'round-id';

/**
 * The longest id of a question, since some clients and proxies truncate longer ones. Clients that carry state for us do not.
 */
const MAX_ID = 6 * 1024;

/**
 * Asks with a request of the server in place of the call's response. The answer comes without its call.
 *
 * The continuation travels in the drafts' top-level `state` (R-01) or, with `byId`, in the id of the question, which every
 * client sends back. Over HTTP the edge takes over the response of the call.
 */
export async function askByRequest(
  round: Round,
  store: ContinuationStore,
  byId: boolean,
): Promise<SendRound> {
  const { exchange, questions, keep } = round;
  const { transportSession: s, edgeContext } = exchange;
  const suspend = edgeContext?.suspend;
  const continuation: Continuation = {
    ...withCall(round.continuation, exchange),
    ...(suspend && s !== undefined && { s }),
  };
  const state = await store.keep(continuation, {
    ...keep,
    ...(byId && !exchange.peer.families.state && { most: MAX_ID }),
    purpose: byId ? ID_PURPOSE : ANSWER_PURPOSE,
    findable: !byId,
    caller: exchange.caller,
  });
  const { f: flow, n } = continuation;
  const id = byId ? stateText(state) : writeQuestionId({ flow, round: n, call: exchange.request.id });
  const message = questionMessage(questions[0], id, byId ? undefined : state);
  return async () => {
    if (suspend) suspend({ message, continuation, byId });
    else await exchange.link.send(message, { relatedRequestId: exchange.request.id });
    return undefined;
  };
}

/** Returns the question as a request of the server. Without a question it is a `ping`, which every client answers. */
function questionMessage(question: Question | undefined, id: Id, state: FlowContext | undefined): Request {
  const { method, params } = question ?? { method: 'ping', params: undefined };
  const request: Request = { jsonrpc: '2.0', id, method, ...(params && { params }) };
  return state === undefined ? request : raise(request, { state: JSON.stringify(state) });
}

/** Whether a response claims to answer a question that came in place of its call's response, genuine or not. */
export function isAnswer({ id }: Response, top: Top | undefined, { codec }: ContinuationStore): boolean {
  return top?.state !== undefined || readQuestionId(id) !== undefined || codec.recognizes(id);
}

/** What happens when an answer does not bring back what the question carried. */
export interface AnswerEvents {
  /** The answer came without its state. */
  notEchoed(): void;
  /** The state of such an answer was found in the store. */
  recalled(): void;
  /** The state came back damaged, and the store replaces it. */
  replaced(error: unknown): void;
}

/**
 * Returns the round that an answer continues. Throws `SealError` if what it brings back is not genuine.
 *
 * `session` is the transport session that the answer came in, if any instance may be answered. An answer without its state is
 * accepted only in that session.
 */
export async function readAnswerAlone(
  response: Response,
  top: Top | undefined,
  session: string | undefined,
  store: ContinuationStore,
  events: AnswerEvents,
): Promise<Answered> {
  const continuation = await findContinuation(response.id, top, session, store, events);
  const { answer, session: present } = readAnswer(response);
  const key = continuation.q?.[0]?.[0];
  const answers = new Map(key === undefined ? [] : [[key, answer]]);
  const { o } = continuation;
  if (!o) return { continuation, answers };
  const { params, isBehind } = withPresentSession(o.p, present);
  return { continuation: { ...continuation, o: { ...o, ...(params && { p: params }) } }, answers, isBehind };
}

async function findContinuation(
  id: Response['id'],
  top: Top | undefined,
  session: string | undefined,
  store: ContinuationStore,
  events: AnswerEvents,
): Promise<Continuation> {
  const named = readQuestionId(id);
  // The id of a question is not secret: it contains the flow's id, which authors log.
  const inSession = (stored: Continuation): Continuation => {
    if (stored.s !== session) throw new SealError('wrong-subject');
    return stored;
  };
  if (top?.state !== undefined) {
    try {
      return await store.find(JSON.parse(top.state), { purpose: ANSWER_PURPOSE });
    } catch (error) {
      const stored = named && isDamaged(error) ? await store.replace(named.flow, named.round) : undefined;
      if (!stored) throw error;
      const replaced = inSession(stored);
      events.replaced(error);
      return replaced;
    }
  }
  if (!named) return store.find(id, { purpose: ID_PURPOSE });
  events.notEchoed();
  const stored = await store.recall(named.flow, named.round);
  if (!stored) throw new SealError('expired');
  const recalled = inSession(stored);
  events.recalled();
  return recalled;
}

const DAMAGED: readonly string[] = ['malformed', 'tampered', 'unknown-key'] satisfies SealReason[];

/**
 * Whether a state fails to prove that this server made it. A state that is late, foreign or used is genuine, and is refused.
 */
function isDamaged(error: unknown): boolean {
  return error instanceof SealError ? DAMAGED.includes(error.reason) : isUnknownKey(error);
}
