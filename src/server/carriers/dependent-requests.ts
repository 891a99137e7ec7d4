import { raise } from '../../edge/drafts.ts';
import { SealError } from '../../seal/index.ts';
import {
  type Answer,
  dependentRequests,
  isProblem,
  type Response,
  readDependentResponses,
} from '../../wire/index.ts';
import type { Exchange, SendRound } from '../exchange.ts';
import { safeAnswer } from '../flows/answer.ts';
import type { FlowContext } from '../flows/codec.ts';
import type { Answered } from '../flows/continuation.ts';
import type { ContinuationStore } from '../flows/continuation-store.ts';
import { boundTo, CALL_PURPOSE, keepForCall, type Round } from './input-required.ts';

/** The purpose of the states besides the first, if each question has its own. */
const PART_PURPOSE = 'round-part';

/**
 * Asks as the drafts do: the response has `dependent_requests` in place of a result.
 *
 * With `each`, every question has its own state. Otherwise they share one.
 */
export async function askByDependentRequests(
  round: Round,
  store: ContinuationStore,
  each: boolean,
): Promise<SendRound> {
  const { exchange, questions, continuation, keep } = round;
  const state = await keepForCall(round, store);
  const asked = questions.map(({ method, params }) => ({ method, ...(params && { params }) }));
  // If each question has its own state, there must be a question to hold it.
  const requests = each && asked.length === 0 ? [{ method: 'ping' }] : asked;
  const seal = { ...boundTo(exchange), ttl: keep.ttl, purpose: PART_PURPOSE };
  const stateOf = (place: number): FlowContext =>
    place === 0 ? state : store.codec.seal([continuation.f, continuation.n, place], seal);
  const { dependent_requests } = each
    ? dependentRequests({
        requests: requests.map((request, place) => ({ state: stateOf(place), ...request })),
      })
    : dependentRequests({ state, requests });
  const response: Response = raise(
    { jsonrpc: '2.0' as const, id: exchange.request.id, result: {} },
    { dependent_requests: JSON.stringify(dependent_requests) },
    { without: 'result' },
  );
  return async () => response;
}

/** Returns the round that a call with `dependent_responses` continues. The answers are in the order of their questions. */
export async function readDependent(
  exchange: Exchange,
  text: string,
  store: ContinuationStore,
): Promise<Answered | undefined> {
  const read = readDependentResponses({ dependent_responses: JSON.parse(text) as unknown });
  if (read === undefined || isProblem(read)) throw new SealError('malformed');
  const states = 'state' in read ? [read.state] : read.responses.map((response) => response.state);
  if (states.every((state) => state === undefined)) return undefined;
  const bound = boundTo(exchange);
  const continuation = await store.find(states[0], { ...bound, purpose: CALL_PURPOSE });
  const { f, n, q = [] } = continuation;
  for (const [place, state] of states.entries()) {
    if (place === 0) continue;
    const part = store.codec.open(state, { ...bound, purpose: PART_PURPOSE });
    if (!Array.isArray(part) || ![f, n, place].every((value, index) => part[index] === value))
      throw new SealError('wrong-binding');
  }
  const answers = new Map<string, Answer>();
  for (const [place, [key]] of q.entries()) {
    const response = read.responses[place];
    if (response)
      answers.set(
        key,
        'error' in response ? { error: response.error } : safeAnswer({ result: response.result }),
      );
  }
  return { continuation, answers };
}
