import { ValiseError } from '../../errors.ts';
import { isObject } from '../../json.ts';
import type { Response } from '../../wire/index.ts';
import { sendAround, wayAround } from '../carriers/fallback.ts';
import { currentExchange, type Exchange, type SendRound } from '../exchange.ts';
import { canAnswer, requireCapability } from './capability.ts';
import { carry } from './carry.ts';
import type { RoundContext } from './context.ts';
import { FlowError, SUSPENDED } from './errors.ts';
import { FLOW } from './mark.ts';
import { createOnce } from './once.ts';
import { broughtAlong, REFUSED } from './opening.ts';
import { requireRoom } from './question.ts';
import { begin, kindOf, type Run, timesOf } from './resume.ts';
import type { Input, Rounds } from './rounds.ts';
import { type Asked, FlowRun, type RunSetup } from './run.ts';
import type { FlowSettings } from './settings.ts';
import type { Flow } from './types.ts';
import { signalIn } from './waiting.ts';
import { isSingle, noWay, pick, type Way, waysOf } from './ways.ts';

/** A handler of either SDK major. Its last argument is the SDK's own. */
export type Handler = (...args: readonly unknown[]) => unknown;

const UNANSWERED = Object.freeze({ resultType: 'input_required', requestState: '' });

/** Everything about one call of a flow. */
interface FlowCall extends Run {
  readonly rounds: Rounds;
  readonly exchange: Exchange;
  readonly input: Input | undefined;
  readonly ways: readonly Way[];
}

/** Turns a flow handler into an SDK handler. The flow takes the place of the SDK's own argument. */
export function flowHandler(rounds: Rounds, settings: FlowSettings, handler: Handler) {
  const registered = async (...args: readonly unknown[]): Promise<unknown> => {
    const exchange = currentExchange(rounds.context);
    if (!exchange) throw notInstalled();
    try {
      const found = rounds.inputOf(exchange) ?? (await recalled(rounds, exchange));
      if (found && 'jsonrpc' in found) {
        exchange.round = async () => found;
        return unanswered(exchange);
      }
      const input = found;
      if (!input && exchange.request.params?.['requestState'] !== undefined) throw notOurs(rounds);
      const call: FlowCall = {
        ...begin(exchange, input, settings, rounds.limits.recordBytes),
        rounds,
        exchange,
        input,
        ways: waysOf(exchange, exchange.edgeContext?.suspend !== undefined),
      };
      const run = new FlowRun(setupOf(call, args.at(-1)));
      const outcome = await run.run((flow: Flow) => handler(...args.slice(0, -1), flow));
      if ('value' in outcome) return outcome.value;
      // Changes that the handler made to other state so far do not count. It will run again from the top, and only its last
      // run's answer is sent.
      exchange.round = await sendable(call, outcome.asked);
    } catch (error) {
      if (error instanceof ValiseError) exchange.note(error);
      throw error;
    }
    return unanswered(exchange);
  };
  return Object.defineProperty(registered, FLOW, { value: true });
}

/**
 * Ends a handler whose call is answered in another way: the SDK produces an answer that is never sent.
 *
 * If the SDK serves 2026-07-28, returning a result is cheaper than throwing.
 */
function unanswered(exchange: Exchange): unknown {
  if (isServedModern(exchange)) return UNANSWERED;
  throw SUSPENDED;
}

/** Returns what a call of a client that cannot be asked continues from. Other clients bring it along. */
function recalled(rounds: Rounds, exchange: Exchange): Promise<Input | Response | undefined> | undefined {
  return wayAround(exchange, ANY_FORM, rounds.around) && rounds.recall(exchange);
}

const ANY_FORM = { key: '', method: 'elicitation/create', params: {} } as const;

function setupOf(
  { rounds, settings, exchange, input, journal, ways, id, attempt }: FlowCall,
  extra: unknown,
): RunSetup {
  const now = Math.floor(Date.now() / 1000);
  const signal = signalIn(extra);
  return {
    id,
    journal,
    extra,
    signal,
    suspends: ways.length > 0 && ways[0] !== 'memory',
    canAsk: () =>
      wayAround(exchange, ANY_FORM, rounds.around) !== undefined ||
      (ways.length > 0 && canAnswer(exchange.peer, ANY_FORM)),
    admit(question) {
      if (wayAround(exchange, question, rounds.around)) {
        requireRoom(journal.answers, question.key);
        return;
      }
      if (ways.length === 0) throw noWay(exchange, question.key);
      requireRoom(journal.answers, question.key);
      requireCapability(exchange.peer, question, exchange.era === 'modern');
    },
    wait(kind, question) {
      if (wayAround(exchange, question, rounds.around)) return undefined;
      const answer = input ? undefined : broughtAlong(exchange, question);
      if (answer) return Promise.resolve(answer);
      const here = ways[0] === 'memory' || (settings.wait.includes(kind) && ways.includes('memory'));
      if (!here) return undefined;
      return rounds.waiting.ask(exchange, question, {
        // If the question has changed since the handler started over, it is another request and needs another id.
        id: `valise:${attempt === 1 ? id : `${id}.${attempt}`}:${question.key}`,
        ttl: question.ttl ?? settings.ttl,
      });
    },
    once: createOnce({
      flow: id,
      records: input && rounds.records.isShared ? rounds.records : undefined,
      caller: exchange.caller,
      exclusive: input?.turn.exclusive === true,
      ttl: Math.max(0, (input?.context.e ?? now) - now) + 240,
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

/** Prepares the round that is sent in place of the call's answer. */
function sendable(call: FlowCall, all: readonly Asked[]): Promise<SendRound> {
  const { rounds, settings, exchange, journal, ways, id, past } = call;
  const [first] = all;
  const around = first && wayAround(exchange, first.question, rounds.around);
  const way = pick(ways, all.length) as Exclude<Way, 'memory'>;
  const asked =
    around || isSingle(way)
      ? all.slice(0, 1)
      : all.filter(({ question }) => !wayAround(exchange, question, rounds.around));
  const questions = asked.map(({ question }) => question);
  const times = timesOf(settings, questions, call);
  const context: RoundContext = {
    f: id,
    n: (past?.n ?? 0) + 1,
    t: times.since,
    e: times.end,
    ...(settings.version !== undefined && { h: settings.version }),
    j: journal.lines(),
    q: asked.map(({ question, print }) => [question.key, kindOf(question), print]),
    ...(exchange.observed?.traceparent !== undefined && { x: exchange.observed.traceparent }),
  };
  if (exchange.observed) exchange.observed.asked = { flow: id, round: context.n, carrier: around ?? way };
  if (around) return sendAround(around, exchange, first.question, context, times.ttl, rounds.around);
  const { mode, budget, renew } = settings;
  return carry(
    way,
    ways,
    {
      exchange,
      questions,
      context,
      keep: { mode, budget, ttl: times.ttl },
      renewBy: renew === undefined ? undefined : times.end * 1000,
    },
    { keeper: rounds.keeper, codec: rounds.codec, suspend: exchange.edgeContext?.suspend },
  );
}

/** Whether the SDK itself has classified the request as modern. An SDK that has not would process the result further. */
function isServedModern({ era, extra }: Exchange): boolean {
  if (era !== 'modern' || !isObject(extra)) return false;
  const { classification } = extra;
  return isObject(classification) && classification['era'] === 'modern';
}

function notInstalled(): FlowError {
  return new FlowError('outside-request', 'A flow was called on a server without Valise.', {
    next: 'Call valise.install(server) before server.connect().',
  });
}

/** Returns the error for a context that the codec does not recognize: it was altered, or belongs to another server. */
function notOurs(rounds: Rounds): FlowError {
  rounds.refused('the context of a round', undefined);
  return new FlowError('ask-failed', REFUSED.message, { rpc: REFUSED });
}
