import { ValiseError } from '../errors.ts';
import { isObject } from '../json.ts';
import type { Params, Result, RpcError } from './message.ts';
import { NAMES } from './names.ts';
import type { Problem } from './problem.ts';

/** A question in a `dependent_requests`. Its `state` counts where the property is there, whatever its value. */
export interface DependentRequest {
  readonly method: string;
  readonly params?: Params;
  readonly state?: unknown;
}

/** The questions of one round: with one `state` for all (option 1), or one with each (option 2). */
export interface DependentRequests {
  readonly state?: unknown;
  readonly requests: readonly DependentRequest[];
}

/** What a question came to. */
export type Answer = { readonly result: Result } | { readonly error: RpcError };

/** An answer, with its question's `state`. */
export type DependentResponse = Answer & { readonly state?: unknown };

/** The answers of one round, each at the place of its question. */
export interface DependentResponses {
  readonly state?: unknown;
  readonly responses: readonly DependentResponse[];
}

/** More questions than this in one round are not read. */
export const MAX_QUESTIONS = 100;

const { requests: REQUESTS, responses: RESPONSES, state: STATE } = NAMES.legacy.rounds;

/** The `state` of a message or of a part of one, wrapped, since `null` and `""` are values too; nothing if absent. */
export function readTopState(message: unknown): { readonly state: unknown } | undefined {
  return isObject(message) && Object.hasOwn(message, STATE) ? { state: message[STATE] } : undefined;
}

/** A message with a top-level `state`. Only for a peer that announced the carrier: stock ones refuse the message. */
export function withTopState<M extends object>(message: M, state: unknown): M & { readonly state: unknown } {
  return { ...message, [STATE]: state } as M & { readonly state: unknown };
}

/** The top-level field of an answer that asks back first; no `result` stands beside it. */
export function dependentRequests(round: DependentRequests): {
  readonly dependent_requests: DependentRequests;
} {
  const shared = readTopState(round) !== undefined;
  if (shared && round.requests.some(readTopState)) {
    throw new ValiseError(
      'two-states',
      'A round has one state for all its questions or one with each, not both.',
      {
        next: 'Leave out the shared state or the ones in the requests.',
      },
    );
  }
  return { [REQUESTS]: round };
}

/** Reads the questions of a round; nothing where the message is no such answer. */
export function readDependentRequests(message: unknown): DependentRequests | Problem | undefined {
  if (!isObject(message) || message[REQUESTS] === undefined) return undefined;
  const round = message[REQUESTS];
  if (!isObject(round)) return { problem: 'wrong-type', where: REQUESTS };
  if (!Array.isArray(round.requests)) return { problem: 'wrong-type', where: `${REQUESTS}.requests` };
  if (round.requests.length > MAX_QUESTIONS) return { problem: 'too-many', where: `${REQUESTS}.requests` };
  const requests: DependentRequest[] = [];
  for (const request of round.requests as unknown[]) {
    // A question that were passed over would shift the places of all answers after it.
    if (!isObject(request)) return { problem: 'wrong-type', where: `${REQUESTS}.requests` };
    // The draft's examples leave out the method of what is plainly an elicitation.
    const { method = 'elicitation/create', params } = request;
    if (typeof method !== 'string' || !(params === undefined || isObject(params))) {
      return { problem: 'wrong-type', where: `${REQUESTS}.requests` };
    }
    requests.push({
      method,
      ...(params === undefined ? {} : { params: params as Params }),
      ...readTopState(request),
    });
  }
  return { ...readTopState(round), requests };
}

/** The top-level field of the retry: the answers in the order of their questions, each state where it came from. */
export function dependentResponses(
  asked: DependentRequests,
  answers: readonly Answer[],
): { readonly dependent_responses: DependentResponses } {
  if (answers.length !== asked.requests.length) {
    throw new ValiseError(
      'answers-missing',
      `The round has ${asked.requests.length} questions and ${answers.length} answers.`,
      { next: 'Give one answer, a result or an error, to each question.' },
    );
  }
  const responses = answers.map((answer, place) => ({ ...readTopState(asked.requests[place]), ...answer }));
  return { [RESPONSES]: { ...readTopState(asked), responses } };
}

/** Reads the answers of a round from the retried request; nothing where there are none. */
export function readDependentResponses(message: unknown): DependentResponses | Problem | undefined {
  if (!isObject(message) || message[RESPONSES] === undefined) return undefined;
  const round = message[RESPONSES];
  if (!isObject(round)) return { problem: 'wrong-type', where: RESPONSES };
  if (!Array.isArray(round.responses)) return { problem: 'wrong-type', where: `${RESPONSES}.responses` };
  if (round.responses.length > MAX_QUESTIONS) return { problem: 'too-many', where: `${RESPONSES}.responses` };
  const responses: DependentResponse[] = [];
  for (const response of round.responses as unknown[]) {
    const answer = readAnswer(response);
    if (answer === undefined) return { problem: 'wrong-type', where: `${RESPONSES}.responses` };
    responses.push({ ...readTopState(response), ...answer });
  }
  return { ...readTopState(round), responses };
}

function readAnswer(response: unknown): Answer | undefined {
  if (!isObject(response)) return undefined;
  const { result, error } = response;
  if (isObject(error) && typeof error.code === 'number' && typeof error.message === 'string') {
    return { error: error as unknown as RpcError };
  }
  return isObject(result) ? { result: result as Result } : undefined;
}
