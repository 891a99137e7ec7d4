import type { Json } from '../../core/json.ts';
import { SealError } from '../../seal/index.ts';
import {
  type Answer,
  inputRequired,
  isProblem,
  NAMES,
  type Params,
  type Response,
  readInputGiven,
} from '../../wire/index.ts';
import type { Exchange, SendRound } from '../exchange.ts';
import { endingOf, safeAnswer } from '../flows/answer.ts';
import { stateText } from '../flows/codec.ts';
import { type Answered, type Continuation, callOf } from '../flows/continuation.ts';
import type { ContinuationStore, KeepOptions } from '../flows/continuation-store.ts';
import type { Question } from '../flows/question.ts';
import { principalKey } from '../principal.ts';

/** A round that a handler has asked, before it is sent. */
export interface Round {
  readonly exchange: Exchange;
  readonly questions: readonly Question[];
  readonly continuation: Continuation;
  readonly keep: Pick<KeepOptions, 'mode' | 'budget' | 'ttl' | 'tool'>;
  /** Until when the client may ask for a new text, if the flow can be renewed, in milliseconds since 1970. */
  readonly renewBy?: number | undefined;
}

/** The purpose of a state that comes back with the call itself and is bound to it. */
export const CALL_PURPOSE = 'round';

/** Returns the subject and binding for the seal of a continuation that comes back with its call. */
export function boundTo({ request, principal }: Exchange): {
  readonly subject: string | undefined;
  readonly bind: Json;
} {
  return { subject: principalKey(principal), bind: callOf(request) };
}

/** Seals the continuation of a round whose answers come back with its call. */
export async function keepForCall(round: Round, store: ContinuationStore) {
  const { exchange, continuation, keep } = round;
  return store.keep(continuation, {
    ...keep,
    ...boundTo(exchange),
    purpose: CALL_PURPOSE,
    findable: false,
    caller: exchange.caller,
  });
}

/** Asks as 2026-07-28 does: the result of the call names the questions. */
export async function askByResult(round: Round, store: ContinuationStore): Promise<SendRound> {
  const { exchange, questions, renewBy } = round;
  const state = await keepForCall(round, store);
  const inputRequests = Object.fromEntries(
    questions.map(({ key, method, params }) => [key, { method, ...(params && { params }) }]),
  );
  const result = inputRequired({
    requestState: stateText(state),
    ...(questions.length > 0 && { inputRequests }),
  });
  const own = renewBy === undefined ? undefined : { [NAMES.modern.extension.rounds]: { renewBy } };
  return async (response): Promise<Response> => {
    const _meta = { ...('result' in response ? response.result._meta : undefined), ...own };
    const isPlain = Object.keys(_meta).length === 0;
    return { jsonrpc: '2.0', id: exchange.request.id, result: isPlain ? result : { ...result, _meta } };
  };
}

/** Returns the round that a repeated call continues, or undefined if its state is not ours. */
export async function readRetry(exchange: Exchange, store: ContinuationStore): Promise<Answered | undefined> {
  const { params } = exchange.request;
  const state = params?.['requestState'];
  if (typeof state !== 'string' || !store.codec.recognizes(state)) return undefined;
  const input = readInputGiven(params);
  if (isProblem(input)) throw new SealError('malformed');
  const continuation = await store.find(state, { ...boundTo(exchange), purpose: CALL_PURPOSE });
  const answers = new Map<string, Answer>();
  for (const [key, result] of Object.entries(input.inputResponses ?? {}))
    answers.set(key, safeAnswer({ result }));
  return { continuation, answers };
}

/** Returns the params of a repeated call without what the repetition added, since the SDK must not look at our state. */
export function withoutRetry(params: Params | undefined): Params | undefined {
  if (!params) return undefined;
  const { requestState, inputResponses, ...own } = params;
  return own;
}

/**
 * Returns the answer that a first call includes for a question, or undefined if there is no readable one.
 *
 * Clients of 2026-07-28 may answer in advance if they know what they will be asked.
 */
export function answerInAdvance({ codec, request }: Exchange, { key, method }: Question): Answer | undefined {
  if (!codec.asksByResult) return undefined;
  const input = readInputGiven(request.params);
  const result = isProblem(input) ? undefined : input.inputResponses?.[key];
  const answer = result && safeAnswer({ result });
  return answer && endingOf(method, answer) ? answer : undefined;
}
