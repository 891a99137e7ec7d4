import { isObject, type Json } from '../../core/json.ts';
import type { Top } from '../../edge/drafts.ts';
import { skimArray, skimObject } from '../../edge/json-scan.ts';
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

/** A question from the server. */
export interface Question {
  readonly key: string;
  readonly method: string;
  readonly params?: Params;
}

/**
 * The questions a server asks before it returns the result of a call, and the context to send back with the answers.
 * Contexts stay as the original text and are never parsed.
 */
export type Questions = { readonly questions: readonly Question[] } & (
  | { readonly carrier: 'input'; readonly requestState?: string }
  | { readonly carrier: 'dependent'; readonly shared?: string; readonly each?: readonly (string | null)[] }
  | { readonly carrier: 'state'; readonly state: string; readonly askId: Id; readonly callId?: Id }
);

/**
 * Returns when the questions expire, in milliseconds since 1970: the earliest time that the server names. Returns undefined if
 * the server names none, or one that has already passed by this clock, which then differs from the server's.
 */
export function expiryOf({ questions }: Questions): number | undefined {
  let earliest: number | undefined;
  for (const { params } of questions) {
    const named = isObject(params?._meta) ? params._meta[EXPIRES_AT] : undefined;
    const time = typeof named === 'string' && named.length <= 64 ? Date.parse(named) : Number.NaN;
    if (time > Date.now() && !(earliest !== undefined && earliest < time)) earliest = time;
  }
  return earliest;
}

/** Questions that cannot be read. */
export interface BadQuestions {
  readonly bad: string;
}

/** Reads the questions in a response, in the draft or the final form. Returns undefined if there are none. */
export function readQuestions(
  response: Response,
  top: Top | undefined,
): Questions | BadQuestions | undefined {
  if (top?.dependent_requests !== undefined) return readDependent(top.dependent_requests);
  if (!('result' in response)) return undefined;
  const read = readInputRequired(response.result);
  if (read === undefined) return undefined;
  if (isProblem(read)) return { bad: `${read.where}: ${read.problem}` };
  const questions = Object.entries(read.inputRequests ?? {}).map(([key, request]) => ({ key, ...request }));
  return {
    carrier: 'input',
    questions,
    ...(read.requestState !== undefined && { requestState: read.requestState }),
  };
}

function readDependent(text: string): Questions | BadQuestions {
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
  if (shared !== undefined) return { carrier: 'dependent', questions, shared };
  const list = members?.get('requests');
  const each = (list ? (skimArray(text, list.start) ?? []) : []).map(
    ({ start }) => stateIn(skimObject(text, start)) ?? null,
  );
  return { carrier: 'dependent', questions, ...(each.some((state) => state !== null) && { each }) };
}

/** Returns what a retry adds to its call: params in the final form, a top-level member in the draft form. */
export function retryOf(
  request: Request,
  asked: Questions & { readonly carrier: 'input' | 'dependent' },
  answers: readonly Answer[],
): { readonly params: Params | undefined; readonly top?: Top } {
  if (asked.carrier === 'dependent') {
    return { params: request.params, top: { dependent_responses: dependentText(asked, answers) } };
  }
  const inputResponses = Object.fromEntries(
    asked.questions.flatMap(({ key }, place) => {
      const answer = answers[place];
      // The final form cannot carry errors, so the server asks an unanswered question again.
      return answer && 'result' in answer ? [[key, answer.result] as [string, Result]] : [];
    }),
  );
  return {
    params: retryParams(request.params, {
      ...(asked.questions.length > 0 && { inputResponses }),
      ...(asked.requestState !== undefined && { requestState: asked.requestState }),
    }),
  };
}

/** Builds the member as text, so that every state is sent back byte for byte. */
function dependentText(
  asked: Questions & { readonly carrier: 'dependent' },
  answers: readonly Answer[],
): string {
  const responses = answers.map((answer, place) => {
    const state = asked.each?.[place];
    const printed = JSON.stringify('result' in answer ? { result: answer.result } : { error: answer.error });
    return state === undefined || state === null ? printed : `{"state":${state},${printed.slice(1)}`;
  });
  const shared = asked.shared === undefined ? '' : `"state":${asked.shared},`;
  return `{${shared}"responses":[${responses.join(',')}]}`;
}

/** Returns the questions as stored. Their carrier is stored as `form`. */
export function writeQuestions({ carrier, ...rest }: Questions): Json {
  return JSON.parse(JSON.stringify({ form: carrier, ...rest })) as Json;
}

/** Reads stored questions. Returns undefined if the value is something else. */
export function storedQuestions(value: unknown): Questions | undefined {
  if (!isObject(value) || !Array.isArray(value['questions'])) return undefined;
  const { form: carrier, ...rest } = value;
  return typeof carrier === 'string' ? ({ carrier, ...rest } as unknown as Questions) : undefined;
}
