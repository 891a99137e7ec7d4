import { messageOf } from '../../errors.ts';
import { isObject } from '../../json.ts';
import { skimArray, skimObject } from '../../link/skim.ts';
import type { Top } from '../../link/top.ts';
import {
  type Answer,
  EXPIRES_AT,
  type Id,
  isProblem,
  type Params,
  type Request,
  type Response,
  type Result,
  readDependentRequests,
  readInputRequired,
  retryParams,
} from '../../wire/index.ts';
import { statusOf } from '../connection/errors.ts';

/** A question from the server. */
export interface RoundQuestion {
  readonly key: string;
  readonly method: string;
  readonly params?: Params;
}

/**
 * The questions a server asks before it returns the result of a call, and the context to send back with the answers.
 * Contexts are kept as the original text and never parsed.
 */
export type Round = { readonly questions: readonly RoundQuestion[] } & (
  | { readonly form: 'input'; readonly requestState?: string }
  | { readonly form: 'dependent'; readonly shared?: string; readonly each?: readonly (string | null)[] }
  | { readonly form: 'state'; readonly state: string; readonly askId: Id; readonly callId?: Id }
);

/**
 * Returns when a round expires, in milliseconds since 1970: the earliest time that its server names. Returns undefined if
 * the server names none, or one that has already passed by this clock, which then differs from the server's.
 */
export function expiryOf({ questions }: Round): number | undefined {
  let earliest: number | undefined;
  for (const { params } of questions) {
    const named = isObject(params?._meta) ? params._meta[EXPIRES_AT] : undefined;
    const time = typeof named === 'string' && named.length <= 64 ? Date.parse(named) : Number.NaN;
    if (time > Date.now() && !(earliest !== undefined && earliest < time)) earliest = time;
  }
  return earliest;
}

/** How our servers reject the answer to an expired round. */
const EXPIRED = /invalid_request_state|Invalid or expired requestState/;

/**
 * Whether a server rejected an answer because its round has expired. Over HTTP, the status of the request that carried it
 * says so.
 */
export function isExpired(error: unknown): boolean {
  const { data } = (error ?? {}) as { readonly data?: unknown };
  const body = isObject(data) ? JSON.stringify(data) : '';
  return statusOf(error) === 400 && EXPIRED.test(`${messageOf(error)} ${body}`);
}

/** A round that cannot be read. */
export interface BadRound {
  readonly bad: string;
}

/** Reads the round in a response, in the draft or the final form. Returns undefined if the response has no questions. */
export function readRound(response: Response, top: Top | undefined): Round | BadRound | undefined {
  if (top?.dependent_requests !== undefined) return readDependent(top.dependent_requests);
  if (!('result' in response)) return undefined;
  const read = readInputRequired(response.result);
  if (read === undefined) return undefined;
  if (isProblem(read)) return { bad: `${read.where}: ${read.problem}` };
  const questions = Object.entries(read.inputRequests ?? {}).map(([key, request]) => ({ key, ...request }));
  return {
    form: 'input',
    questions,
    ...(read.requestState !== undefined && { requestState: read.requestState }),
  };
}

function readDependent(text: string): Round | BadRound {
  const read = readDependentRequests({ dependent_requests: JSON.parse(text) as unknown });
  if (read === undefined || isProblem(read))
    return { bad: read ? `${read.where}: ${read.problem}` : 'dependent_requests' };
  const questions = read.requests.map(({ method, params }, place) => ({
    key: String(place),
    method,
    ...(params && { params }),
  }));
  const members = skimObject(text);
  const stateIn = (spans: ReturnType<typeof skimObject>): string | undefined => {
    const span = spans?.get('state');
    return span && text.slice(span.start, span.end);
  };
  const shared = stateIn(members);
  if (shared !== undefined) return { form: 'dependent', questions, shared };
  const list = members?.get('requests');
  const each = (list ? (skimArray(text, list.start) ?? []) : []).map(
    ({ start }) => stateIn(skimObject(text, start)) ?? null,
  );
  return { form: 'dependent', questions, ...(each.some((state) => state !== null) && { each }) };
}

/** Returns what a retry adds to its call: params in the final form, a top-level member in the draft form. */
export function retryOf(
  request: Request,
  round: Round & { readonly form: 'input' | 'dependent' },
  answers: readonly Answer[],
): { readonly params: Params | undefined; readonly top?: Top } {
  if (round.form === 'dependent') {
    return { params: request.params, top: { dependent_responses: dependentText(round, answers) } };
  }
  const inputResponses = Object.fromEntries(
    round.questions.flatMap(({ key }, place) => {
      const answer = answers[place];
      // The final form cannot carry errors, so the server asks an unanswered question again.
      return answer && 'result' in answer ? [[key, answer.result] as [string, Result]] : [];
    }),
  );
  return {
    params: retryParams(request.params, {
      ...(round.questions.length > 0 && { inputResponses }),
      ...(round.requestState !== undefined && { requestState: round.requestState }),
    }),
  };
}

/** Builds the member as text, so that every state is sent back byte for byte. */
function dependentText(round: Round & { readonly form: 'dependent' }, answers: readonly Answer[]): string {
  const responses = answers.map((answer, place) => {
    const state = round.each?.[place];
    const printed = JSON.stringify('result' in answer ? { result: answer.result } : { error: answer.error });
    return state === undefined || state === null ? printed : `{"state":${state},${printed.slice(1)}`;
  });
  const shared = round.shared === undefined ? '' : `"state":${round.shared},`;
  return `{${shared}"responses":[${responses.join(',')}]}`;
}

/** Reads a stored round. Returns undefined if the value is not a round. */
export function readStored(value: unknown): Round | undefined {
  return isObject(value) && Array.isArray(value['questions']) && typeof value['form'] === 'string'
    ? (value as unknown as Round)
    : undefined;
}
