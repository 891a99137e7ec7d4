import { type Duration, seconds } from '../../duration.ts';
import { messageOf, ValiseError } from '../../errors.ts';
import type { Json } from '../../json.ts';
import { checkArgument, FUNCTION, TEXT } from '../../options.ts';
import {
  type Answer,
  INTERNAL_ERROR,
  type Params,
  type Request,
  type Result,
  type RpcError,
} from '../../wire/index.ts';
import { currentExchange, type Exchange, runIn } from '../exchange.ts';
import type { Reply } from '../part.ts';
import { requireCapability } from './capability.ts';
import { carry } from './carry.ts';
import { checkRequest } from './checks.ts';
import { FlowError, SUSPENDED } from './errors.ts';
import { keepToAuthor, suspend } from './flow.ts';
import { newFlowId } from './flow-id.ts';
import { askOnce } from './given.ts';
import { fingerprint, type Question, requireRoom } from './question.ts';
import type { Input, Rounds } from './rounds.ts';
import { noWay, pick, waysOf } from './ways.ts';

/** A request of the server that carries the author's own state. */
export interface RequestOptions {
  /** What comes back with the client's answer, to whichever instance that comes: any JSON. */
  readonly state?: Json | undefined;
  /** Which continuation takes the answer; the method unless told. */
  readonly key?: string | undefined;
  /** How long it may stay open (10 minutes unless told), and a minute more where it does not wait in memory: clocks differ. */
  readonly ttl?: Duration | undefined;
}

/** What a continuation gets. */
export interface Continuation {
  /** What was given as `state`. */
  readonly state: Json | undefined;
  /** What the client answered: a result or an error. */
  readonly result: Result | undefined;
  readonly error: RpcError | undefined;
  /** The call in which the request was made; what the continuation returns is its result. */
  readonly call: { readonly method: string; readonly params: Params | undefined };
}

/** Goes on with a call once the client has answered. May ask again with another `valise.request`. */
export type Continue = (continuation: Continuation) => Result | Promise<Result>;

/** The bare form of a round: a request with a state, and a function that takes the answer. */
export interface Bare {
  /**
   * Asks the client in the middle of a call, with a state that comes back with its answer, and ends the handler here:
   * `return valise.request(…)`. The continuation for `key` goes on, on whichever instance the answer comes to; what it
   * returns is the result of the call. Without a state and a continuation it simply waits, where the connection stays.
   *
   * @example
   * ```ts
   * valise.onResponse('duplicate-of', ({ state, result }) => finish(state, result));
   * return valise.request('elicitation/create', params, { key: 'duplicate-of', state: { resolution: 'Duplicate' } });
   * ```
   */
  request(method: string, params?: Params, options?: RequestOptions): Promise<Result>;
  /** Says who takes the answers to requests with this key. Every instance must say it, before it serves. */
  onResponse(key: string, go: Continue): void;
}

const TTL = 600;
const BUDGET = 48 * 1024;

export function createBare(rounds: Rounds): Bare {
  const continuations = new Map<string, Continue>();

  const goOn = async (
    exchange: Exchange,
    key: string,
    state: Json | undefined,
    answer: Answer | undefined,
  ): Promise<Result> => {
    const go = continuations.get(key);
    if (!go) throw noContinuation(key);
    const { method, params } = exchange.request;
    return go({
      state,
      result: answer && 'result' in answer ? answer.result : undefined,
      error: answer && 'error' in answer ? answer.error : undefined,
      call: { method, params },
    });
  };

  rounds.continuation = async (exchange, input): Promise<Reply> => {
    const { k, s } = input.context.b ?? { k: '', s: undefined };
    try {
      return { result: await runIn(exchange, () => goOn(exchange, k, s, input.answers.get(k))) };
    } catch (error) {
      // It has asked again: what is answered here is replaced by the next round on its way out.
      return error === SUSPENDED ? { result: {} } : failure(exchange.request, error);
    }
  };

  return {
    async request(method, params, options = {}) {
      checkRequest(options);
      const { state, key = method, ttl = TTL } = options;
      const exchange = currentExchange(rounds.context);
      if (!exchange) throw outside(method);
      const ways = waysOf(exchange, exchange.ingress?.suspend !== undefined);
      const way = pick(ways, 1);
      const lifetime = Math.ceil(seconds(ttl));
      const question: Question = { key, method, ...(params && { params }), ttl: lifetime };
      if (!way) throw noWay(exchange, key);
      requireCapability(exchange.peer, question, exchange.era === 'modern');
      const flow = newFlowId();
      const goesOn = continuations.has(key);
      if (way === 'memory' || (!goesOn && state === undefined && ways.includes('memory'))) {
        const answer = await askOnce(
          exchange,
          `${method} ${key} ${fingerprint(question)}`,
          rounds.limits.recordBytes,
          () => rounds.waiting.ask(exchange, question, { id: `valise:${flow}`, ttl: lifetime }),
        );
        if (goesOn) return goOn(exchange, key, state, answer);
        if ('result' in answer) return answer.result;
        throw new FlowError(
          'ask-failed',
          `The client answered ${method} with error ${answer.error.code}: ${answer.error.message}.`,
        );
      }
      if (!goesOn) throw noContinuation(key);
      const input: Input | undefined = rounds.inputOf(exchange);
      requireRoom(input?.context.n ?? 0, key);
      const now = Math.floor(Date.now() / 1000);
      const send = await carry(
        way,
        ways,
        {
          exchange,
          questions: [question],
          context: {
            f: input?.context.f ?? flow,
            n: (input?.context.n ?? 0) + 1,
            t: now,
            e: now + lifetime,
            q: [[key, 'b', '']],
            b: { k: key, m: method, ...(state !== undefined && { s: state }) },
          },
          keep: { mode: rounds.mode, budget: BUDGET, ttl: lifetime },
        },
        { keeper: rounds.keeper, codec: rounds.codec, suspend: exchange.ingress?.suspend },
      ).catch((error: unknown) => {
        keepToAuthor(rounds, exchange, error);
        throw error;
      });
      suspend(exchange, send, input?.turn);
      throw SUSPENDED;
    },

    onResponse(key, go) {
      checkArgument('valise.onResponse()', key, TEXT);
      checkArgument('valise.onResponse()', go, FUNCTION);
      if (continuations.has(key)) {
        throw new ValiseError('same-key', `There are two continuations for "${key}".`, {
          next: 'Give each its own key.',
        });
      }
      rounds.asks = true;
      continuations.set(key, go);
    },
  };
}

/** A tool's failure is a result, as the SDKs make it; every other method's is an error. */
function failure({ method }: Request, error: unknown): Reply {
  const message = messageOf(error);
  if (method === 'tools/call')
    return { result: { content: [{ type: 'text', text: message }], isError: true } };
  return { error: { code: INTERNAL_ERROR, message } };
}

function noContinuation(key: string): FlowError {
  return new FlowError('not-installed', `Nothing takes the answer to "${key}".`, {
    key,
    next: `Call valise.onResponse(${JSON.stringify(key)}, …) when the server is built, on every instance.`,
  });
}

function outside(method: string): FlowError {
  return new FlowError(
    'not-installed',
    `${method} was to be sent outside of a handler: there is no client to ask.`,
    {
      next: 'Call valise.request() while a request of the client is being handled.',
    },
  );
}
