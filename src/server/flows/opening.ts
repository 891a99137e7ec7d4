import { isObject } from '../../json.ts';
import { SealError } from '../../seal/index.ts';
import {
  type Answer,
  INVALID_PARAMS,
  isProblem,
  type Params,
  type RpcError,
  readDependentResponses,
  readInputGiven,
} from '../../wire/index.ts';
import type { Exchange } from '../exchange.ts';
import { boundTo, PURPOSE } from './carry.ts';
import type { StateCodec } from './codec.ts';
import type { Answered, RoundContext } from './context.ts';
import type { Keeper } from './keeper.ts';
import { endingOf, type Question, safeAnswer } from './question.ts';

/** The error for every refused context, whatever the reason. */
export const REFUSED: RpcError = {
  code: INVALID_PARAMS,
  message: 'Invalid or expired requestState',
  data: { reason: 'invalid_request_state' },
};

/** The services that opening a retried call needs. */
export interface Opener {
  readonly keeper: Keeper;
  readonly codec: StateCodec;
}

/** Returns the answers and the context that came with a retried call, or undefined if none of them are ours. */
export function openCall(exchange: Exchange, opener: Opener): Answered | undefined | Promise<Answered> {
  const responses = exchange.top?.dependent_responses;
  if (responses !== undefined) return openDependent(exchange, responses, opener);
  const { params } = exchange.request;
  const state = params?.['requestState'];
  if (typeof state !== 'string' || !opener.codec.recognises(state)) return undefined;
  const given = readInputGiven(params);
  if (isProblem(given)) throw new SealError('malformed');
  const found = opener.keeper.find(state, { ...boundTo(exchange), purpose: PURPOSE.call });
  const answers = new Map<string, Answer>();
  for (const [key, result] of Object.entries(given.inputResponses ?? {}))
    answers.set(key, safeAnswer({ result }));
  return found instanceof Promise
    ? found.then((context) => ({ context, answers }))
    : { context: found, answers };
}

/**
 * Returns the answer that a call without any context includes for a question, or undefined if there is no readable one.
 *
 * Clients of 2026-07-28 may answer in advance if they know what they will be asked.
 */
export function broughtAlong({ era, request }: Exchange, { key, method }: Question): Answer | undefined {
  if (era !== 'modern') return undefined;
  const given = readInputGiven(request.params);
  const result = isProblem(given) ? undefined : given.inputResponses?.[key];
  const answer = result && safeAnswer({ result });
  return answer && endingOf(method, answer) ? answer : undefined;
}

/** Returns the params of a retried call without what the retry added, since the SDK must not look at our context. */
export function withoutRetry(params: Params | undefined): Params | undefined {
  if (!params) return undefined;
  const { requestState, inputResponses, ...own } = params;
  return own;
}

/** Opens the draft form: answers are in the order of their questions, with one shared context or one for each. */
function openDependent(
  exchange: Exchange,
  text: string,
  { keeper, codec }: Opener,
): Answered | undefined | Promise<Answered> {
  const read = readDependentResponses({ dependent_responses: JSON.parse(text) as unknown });
  if (read === undefined || isProblem(read)) throw new SealError('malformed');
  const each = !('state' in read);
  const states = each ? read.responses.map((response) => response.state) : [read.state];
  if (states.every((state) => state === undefined)) return undefined;
  const [first] = states;
  const bound = boundTo(exchange);
  const complete = (context: RoundContext): Answered => {
    if (each) {
      for (const [place, state] of states.entries()) {
        if (place > 0 && !isPart(codec, state, [context.f, context.n, place], bound))
          throw new SealError('wrong-binding');
      }
    }
    const answers = new Map<string, Answer>();
    for (const [place, [key]] of (context.q ?? []).entries()) {
      const response = read.responses[place];
      if (response)
        answers.set(
          key,
          'error' in response ? { error: response.error } : safeAnswer({ result: response.result }),
        );
    }
    return { context, answers };
  };
  const found = keeper.find(first, { ...bound, purpose: PURPOSE.call });
  return found instanceof Promise ? found.then(complete) : complete(found);
}

function isPart(
  codec: StateCodec,
  state: unknown,
  expected: readonly [string, number, number],
  bound: ReturnType<typeof boundTo>,
): boolean {
  const part = codec.open(state, { ...bound, purpose: PURPOSE.part });
  return Array.isArray(part) && expected.every((value, at) => part[at] === value);
}

/** Returns why a context was refused, for the log. It never contains the context itself. */
export function reasonOf(error: unknown): string {
  if (error instanceof SealError) return error.reason;
  return isObject(error) && typeof error['code'] === 'string' ? error['code'] : 'malformed';
}

/** Whether the error is a failure of ours (such as an unavailable store), which says nothing about what the client sent. */
export function isFault(error: unknown): error is Error {
  return error instanceof Error && !(error instanceof SealError) && !(error instanceof SyntaxError);
}
