import { ValiseError } from '../core/errors.ts';
import { isObject } from '../core/json.ts';
import type { Params, Result, RpcError } from '../core/message.ts';
import { NAMES } from './names.ts';
import type { Problem } from './problem.ts';

/** A question in `dependent_requests`. Its `state` is present if the property exists, whatever its value. */
export interface DependentRequest {
  readonly method: string;
  readonly params?: Params;
  readonly state?: unknown;
}

/** The questions of one round, with one shared `state` (option 1) or one `state` per question (option 2). */
export interface DependentRequests {
  readonly state?: unknown;
  readonly requests: readonly DependentRequest[];
}

/** The response to a question. */
export type Answer = { readonly result: Result } | { readonly error: RpcError };

/** An answer with the `state` of its question. */
export type DependentResponse = Answer & { readonly state?: unknown };

/** The answers of one round, each at the index of its question. */
export interface DependentResponses {
  readonly state?: unknown;
  readonly responses: readonly DependentResponse[];
}

/** The maximum number of questions per round. A round with more is rejected. */
export const MAX_QUESTIONS = 100;

const { requests: REQUESTS, responses: RESPONSES, state: STATE } = NAMES.legacy.rounds;

/**
 * Returns the `state` of a message or of part of one, wrapped because `null` and `""` are valid values. Returns
 * undefined if absent.
 */
export function readTopState(message: unknown): { readonly state: unknown } | undefined {
  return isObject(message) && Object.hasOwn(message, STATE) ? { state: message[STATE] } : undefined;
}

/**
 * Returns the message with a top-level `state`. Use it only for a peer that announced the carrier: stock SDKs reject
 * the message.
 */
export function withTopState<M extends object>(message: M, state: unknown): M & { readonly state: unknown } {
  return { ...message, [STATE]: state } as M & { readonly state: unknown };
}

/** Returns the top-level field of a response that asks questions first. Such a response has no `result`. */
export function dependentRequests(round: DependentRequests): {
  readonly dependent_requests: DependentRequests;
} {
  const shared = readTopState(round) !== undefined;
  if (shared && round.requests.some(readTopState)) {
    throw new ValiseError(
      'invalid-argument',
      'A round has one state for all its questions or one with each, not both.',
      {
        next: 'Leave out the shared state or the ones in the requests.',
      },
    );
  }
  return { [REQUESTS]: round };
}

/** Reads the questions of a round. Returns undefined if the message does not ask any. */
export function readDependentRequests(message: unknown): DependentRequests | Problem | undefined {
  if (!isObject(message) || message[REQUESTS] === undefined) return undefined;
  const round = message[REQUESTS];
  if (!isObject(round)) return { problem: 'wrong-type', where: REQUESTS };
  if (!Array.isArray(round.requests)) return { problem: 'wrong-type', where: `${REQUESTS}.requests` };
  if (round.requests.length > MAX_QUESTIONS) return { problem: 'too-many', where: `${REQUESTS}.requests` };
  const requests: DependentRequest[] = [];
  for (const request of round.requests as unknown[]) {
    // Skipping a question would shift the index of every answer after it.
    if (!isObject(request)) return { problem: 'wrong-type', where: `${REQUESTS}.requests` };
    // The draft's examples omit the method of questions that are plainly elicitations.
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

/** Returns the top-level field of the retry: the answers in the order of their questions, each `state` in its original place. */
export function dependentResponses(
  asked: DependentRequests,
  answers: readonly Answer[],
): { readonly dependent_responses: DependentResponses } {
  if (answers.length !== asked.requests.length) {
    throw new ValiseError(
      'invalid-argument',
      `The round has ${asked.requests.length} questions and ${answers.length} answers.`,
      { next: 'Give one answer, a result or an error, to each question.' },
    );
  }
  const responses = answers.map((answer, place) => ({ ...readTopState(asked.requests[place]), ...answer }));
  return { [RESPONSES]: { ...readTopState(asked), responses } };
}

/** Reads the answers of a round from the retried request. Returns undefined if there are none. */
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
