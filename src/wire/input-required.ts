import { ValiseError } from '../core/errors.ts';
import { dict, isObject } from '../core/json.ts';
import type { Params, Result } from '../core/message.ts';
import { MAX_QUESTIONS } from './dependent.ts';
import { NAMES } from './names.ts';
import { isProblem, type Problem } from './problem.ts';

/** A question of a round on 2026-07-28. */
export interface InputRequest {
  readonly method: string;
  readonly params?: Params;
}

/** The questions of one round by key, and the server's sealed context. At least one of the two is present. */
export interface InputRequired {
  readonly inputRequests?: { readonly [key: string]: InputRequest };
  readonly requestState?: string;
}

/** The fields a retry adds to the original params: the answers of this round only, and the unchanged context. */
export interface InputGiven {
  readonly inputResponses?: { readonly [key: string]: Result };
  readonly requestState?: string;
}

/** The only methods whose response may be a question on 2026-07-28. */
export const INPUT_METHODS: readonly string[] = ['tools/call', 'prompts/get', 'resources/read'];

const { requests: REQUESTS, responses: RESPONSES, state: STATE } = NAMES.modern.rounds;

/** Returns a result that asks questions first. */
export function inputRequired({ inputRequests, requestState }: InputRequired): Result {
  if (inputRequests === undefined && requestState === undefined) {
    throw new ValiseError('invalid-argument', 'A round has neither a question nor a context.', {
      next: 'Give inputRequests, requestState or both.',
    });
  }
  return {
    resultType: 'input_required',
    ...(inputRequests === undefined ? {} : { [REQUESTS]: inputRequests }),
    ...(requestState === undefined ? {} : { [STATE]: requestState }),
  };
}

/** Reads a result that asks questions first. Returns undefined for any other result. */
export function readInputRequired(result: unknown): InputRequired | Problem | undefined {
  if (!isObject(result) || result.resultType !== 'input_required') return undefined;
  const context = readRequestState(result);
  if (isProblem(context)) return context;
  const asked = result[REQUESTS] ?? undefined;
  if (asked === undefined) {
    return context.requestState === undefined ? { problem: 'incomplete', where: REQUESTS } : context;
  }
  const inputRequests = dict<InputRequest>();
  const problem = eachEntry(asked, REQUESTS, (key, request) => {
    const { method, params } = request;
    if (typeof method !== 'string' || !(params === undefined || isObject(params))) return false;
    inputRequests[key] = params === undefined ? { method } : { method, params: params as Params };
    return true;
  });
  return problem ?? { inputRequests, ...context };
}

/**
 * Returns the params of a retry: the original params, the answers of this round, and the unchanged context. Answers and
 * context of earlier rounds are removed.
 */
export function retryParams(original: Params | undefined, given: InputGiven): Params {
  const { [RESPONSES]: _answers, [STATE]: _context, ...params } = original ?? {};
  return {
    ...params,
    ...(given.inputResponses === undefined ? {} : { [RESPONSES]: given.inputResponses }),
    ...(given.requestState === undefined ? {} : { [STATE]: given.requestState }),
  };
}

/** Reads the answers and the context from the params of a request. A first call has neither. */
export function readInputGiven(params: unknown): InputGiven | Problem {
  if (!isObject(params)) return {};
  const context = readRequestState(params);
  const answers = params[RESPONSES] ?? undefined;
  if (isProblem(context) || answers === undefined) return context;
  const inputResponses = dict<Result>();
  const problem = eachEntry(answers, RESPONSES, (key, answer) => {
    inputResponses[key] = answer as Result;
    return true;
  });
  return problem ?? { inputResponses, ...context };
}

/** Treats `null` as absent. Any other non-string value violates the revision. */
function readRequestState(holder: Record<string, unknown>): { readonly requestState?: string } | Problem {
  const requestState = holder[STATE] ?? undefined;
  if (requestState === undefined) return {};
  return typeof requestState === 'string' ? { requestState } : { problem: 'wrong-type', where: STATE };
}

function eachEntry(
  entries: unknown,
  where: string,
  take: (key: string, entry: Record<string, unknown>) => boolean,
): Problem | undefined {
  if (!isObject(entries)) return { problem: 'wrong-type', where };
  const keys = Object.keys(entries);
  if (keys.length > MAX_QUESTIONS) return { problem: 'too-many', where };
  for (const key of keys) {
    const entry = entries[key];
    if (!isObject(entry) || !take(key, entry)) return { problem: 'wrong-type', where };
  }
  return undefined;
}
