import { ValiseError } from '../../core/errors.ts';
import { isObject } from '../../core/json.ts';
import { checkArgument, FUNCTION } from '../../core/options.ts';
import type { Response } from '../../wire/index.ts';
import { askByFallback, fallbackFor } from '../carriers/fallback.ts';
import { answerInAdvance } from '../carriers/input-required.ts';
import {
  type CarrierName,
  carriersOf,
  isSingle,
  noCarrier,
  passesQuestions,
  pickCarrier,
  prepareRound,
} from '../carriers/question-carrier.ts';
import { currentExchange, type Exchange, type SendRound } from '../exchange.ts';
import type { Continuation } from './continuation.ts';
import type { FlowCounts } from './counters.ts';
import { FlowError } from './errors.ts';
import { type Flows, REFUSED } from './flows.ts';
import type { Input } from './input.ts';
import { createOnce } from './once.ts';
import { type FlowSettings, readFlowOptions } from './options.ts';
import { canAnswer, requireCapability, requireRoom } from './question.ts';
import { type Asked, FlowRun, type RunSetup } from './run.ts';
import { begin, kindOf, type Run, timesOf } from './start.ts';
import type { Flow, FlowOptions } from './types.ts';

/** The part of a server's API that is about flows. */
export interface FlowsApi {
  /**
   * Wraps a handler of a tool, prompt or resource, so that it can ask questions and continue on any instance.
   *
   * The handler gets its usual arguments, with the flow in place of the SDK's own. On every round it runs again from the top.
   * Its answered questions and its effects in `once` are remembered.
   *
   * @example
   * ```ts
   * server.registerTool('delete', config, valise.flow(async ({ path }, flow) => {
   *   const { sure } = await flow.ask('sure', { message: `Delete ${path}?`, schema: yesOrNo });
   *   if (sure) await flow.once('delete', () => disk.delete(path));
   *   return { content: [{ type: 'text', text: sure ? 'Deleted.' : 'Kept.' }] };
   * }));
   * ```
   */
  flow<Args extends readonly unknown[] = [], Value = unknown, Extra = unknown>(
    handler: (...args: [...Args, Flow<Extra>]) => Value | Promise<Value>,
    options?: FlowOptions,
  ): (...args: [...Args, Extra]) => Promise<Value>;
  readonly flows: {
    /** Returns the counts of rounds so far. */
    counts(): FlowCounts;
  };
}

/** A handler of either SDK major. Its last argument is the SDK's own. */
type Handler = (...args: readonly unknown[]) => unknown;

/** Marks the handlers of flows, so that their tools can be told from others. */
const FLOW: unique symbol = Symbol('valise.flow');

/** Whether a function is the handler of a flow. */
export function isFlow(handler: unknown): boolean {
  return typeof handler === 'function' && FLOW in handler;
}

export function flowsApi(flows: Flows): FlowsApi {
  return {
    // Servers that are built for each request register their flows with each request.
    flow(handler, options = {}) {
      checkArgument('valise.flow()', handler, FUNCTION);
      flows.asks = true;
      const settings = readFlowOptions(options, flows.mode, flows.context.store);
      const registered = (...args: readonly unknown[]): Promise<unknown> =>
        runFlow(flows, settings, handler as Handler, args);
      return Object.defineProperty(registered, FLOW, { value: true }) as never;
    },
    flows: { counts: () => flows.counters.read() },
  };
}

/** Everything about one call of a flow. */
interface FlowCall extends Run {
  readonly flows: Flows;
  readonly exchange: Exchange;
  readonly input: Input | undefined;
  readonly carriers: readonly CarrierName[];
}

/** Runs a handler as the SDK calls it, with the flow in place of the SDK's own argument. */
async function runFlow(
  flows: Flows,
  settings: FlowSettings,
  handler: Handler,
  args: readonly unknown[],
): Promise<unknown> {
  const exchange = currentExchange(flows.context);
  if (!exchange) throw notInstalled();
  try {
    const found = flows.inputOf(exchange) ?? (await recalled(flows, exchange));
    if (found && 'jsonrpc' in found) return yieldRound(exchange, async () => found);
    if (!found && exchange.request.params?.['requestState'] !== undefined) throw notOurs(flows);
    const call: FlowCall = {
      ...begin(exchange, found, settings, flows.limits.recordBytes),
      flows,
      exchange,
      input: found,
      carriers: carriersOf(exchange),
    };
    const run = new FlowRun(setupOf(call, args.at(-1)));
    const outcome = await run.run((flow: Flow) => handler(...args.slice(0, -1), flow));
    if ('value' in outcome) return outcome.value;
    // Changes that the handler made to other state so far do not count. It will run again from the top, and only its last
    // run's answer is sent.
    return yieldRound(exchange, await roundOf(call, outcome.asked));
  } catch (error) {
    if (error instanceof ValiseError) exchange.note(error);
    throw error;
  }
}

/** What the SDK gets in place of the handler's result. It is never sent, so a stack trace for each would be wasted. */
const YIELDED = Object.freeze({ resultType: 'input_required', requestState: '' });
const YIELDED_ERROR = new Error('Waiting for the client.');

/**
 * Ends a handler that has asked. Its questions replace the response of the SDK.
 *
 * An SDK that serves 2026-07-28 passes a result that asks through. Any other would process it further.
 */
function yieldRound(exchange: Exchange, round: SendRound): unknown {
  exchange.round = round;
  if (passesQuestions(exchange)) return YIELDED;
  throw YIELDED_ERROR;
}

/** Returns what a call of a client that cannot be asked continues from. Other clients send it along. */
function recalled(flows: Flows, exchange: Exchange): Promise<Input | Response | undefined> | undefined {
  return fallbackFor(exchange, ANY_FORM, flows.fallback) && flows.recall(exchange);
}

const ANY_FORM = { key: '', method: 'elicitation/create', params: {} } as const;

function setupOf(call: FlowCall, extra: unknown): RunSetup {
  const { flows, settings, exchange, input, journal, carriers, id, attempt } = call;
  const now = Math.floor(Date.now() / 1000);
  return {
    id,
    journal,
    extra,
    signal: signalIn(extra),
    suspends: carriers.length > 0 && carriers[0] !== 'connection',
    canAsk: () =>
      fallbackFor(exchange, ANY_FORM, flows.fallback) !== undefined ||
      (carriers.length > 0 && canAnswer(exchange.peer, ANY_FORM)),
    admit(question) {
      const isFallback = fallbackFor(exchange, question, flows.fallback) !== undefined;
      if (!isFallback && carriers.length === 0) throw noCarrier(exchange, question.key);
      requireRoom(journal.answers, question.key);
      if (!isFallback) requireCapability(exchange.peer, question, exchange.codec.asksByResult);
    },
    answer(kind, question) {
      if (fallbackFor(exchange, question, flows.fallback)) return undefined;
      const answer = input ? undefined : answerInAdvance(exchange, question);
      if (answer) return Promise.resolve(answer);
      const isWaited =
        carriers[0] === 'connection' || (settings.wait.includes(kind) && carriers.includes('connection'));
      if (!isWaited) return undefined;
      // If the question has changed since the handler started over, it is another request and needs another id.
      const wireId = `valise:${attempt === 1 ? id : `${id}.${attempt}`}:${question.key}`;
      return flows.connection.ask(exchange, question, wireId, question.ttl ?? settings.ttl);
    },
    once: createOnce({
      flow: id,
      records: input && flows.records.isShared ? flows.records : undefined,
      caller: exchange.caller,
      exclusive: input?.lease.exclusive === true,
      ttl: Math.max(0, (input?.continuation.e ?? now) - now) + 240,
    }),
    async progress(progress, total, message) {
      const token = exchange.request.params?._meta?.['progressToken'];
      if (token === undefined) return;
      const params = {
        progressToken: token,
        progress,
        ...(total !== undefined && { total }),
        ...(message !== undefined && { message }),
      };
      const notification = { jsonrpc: '2.0' as const, method: 'notifications/progress', params };
      await exchange.link.transport.send(notification, { relatedRequestId: exchange.request.id });
    },
  };
}

/** Prepares the round that is sent in place of the call's response. */
async function roundOf(call: FlowCall, all: readonly Asked[]): Promise<SendRound> {
  const { flows, settings, exchange, journal, carriers, id, past } = call;
  const needsFallback = ({ question }: Asked) => fallbackFor(exchange, question, flows.fallback);
  const [first] = all;
  const fallback = first && needsFallback(first);
  const carrier = pickCarrier(carriers, all.length) as Exclude<CarrierName, 'connection'>;
  const asked = fallback || isSingle(carrier) ? all.slice(0, 1) : all.filter((each) => !needsFallback(each));
  const questions = asked.map(({ question }) => question);
  const times = timesOf(settings, questions, call);
  const version = past ? past.v : exchange.peer.families.versions?.rounds;
  const continuation: Continuation = {
    f: id,
    n: (past?.n ?? 0) + 1,
    t: times.since,
    e: times.end,
    ...(settings.version !== undefined && { h: settings.version }),
    ...(version !== undefined && { v: version }),
    j: journal.lines(),
    q: asked.map(({ question, print }) => [question.key, kindOf(question), print]),
    ...(exchange.observed?.traceparent !== undefined && { x: exchange.observed.traceparent }),
  };
  const { mode, budget, renew } = settings;
  const name = exchange.request.params?.['name'];
  const round = {
    exchange,
    questions,
    continuation,
    keep: { mode, budget, ttl: times.ttl, tool: typeof name === 'string' ? name : undefined },
    renewBy: renew === undefined ? undefined : times.end * 1000,
  };
  if (exchange.observed)
    exchange.observed.asked = { flow: id, round: continuation.n, carrier: fallback ?? carrier };
  return fallback
    ? askByFallback(fallback, exchange, first.question, continuation, times.ttl, flows.fallback)
    : prepareRound(carrier, carriers, round, flows.store);
}

/** Returns the signal that ends a call: `extra.signal` in v1, `ctx.mcpReq.signal` in v2. */
export function signalIn(extra: unknown): AbortSignal | undefined {
  if (!isObject(extra)) return undefined;
  const signal = extra['signal'] ?? (isObject(extra['mcpReq']) ? extra['mcpReq']['signal'] : undefined);
  return signal instanceof AbortSignal ? signal : undefined;
}

function notInstalled(): FlowError {
  return new FlowError('outside-request', 'A flow was called on a server without Valise.', {
    next: 'Call valise.install(server) before server.connect().',
  });
}

/** Returns the error for a state that the codec does not recognize: it was altered, or belongs to another server. */
function notOurs(flows: Flows): FlowError {
  flows.refused('the context of a round', undefined);
  return new FlowError('ask-failed', REFUSED.message, { rpc: REFUSED });
}
