import { NO_RESPONSE } from '../../core/compose.ts';
import { isObject } from '../../core/json.ts';
import type { Top } from '../../edge/drafts.ts';
import { SealError } from '../../seal/index.ts';
import {
  CARRIERS,
  type Families,
  INVALID_PARAMS,
  NAMES,
  outcomeIn,
  type Response,
  type RpcError,
} from '../../wire/index.ts';
import { readQuestionId } from '../../wire/question-id.ts';
import { ConnectionCarrier } from '../carriers/connection.ts';
import { readDependent } from '../carriers/dependent-requests.ts';
import type { FallbackOptions } from '../carriers/fallback.ts';
import { readRetry, withoutRetry } from '../carriers/input-required.ts';
import { PendingQuestions } from '../carriers/pending-questions.ts';
import { carriesState } from '../carriers/question-carrier.ts';
import { type AnswerEvents, isAnswer, readAnswerAlone } from '../carriers/server-request.ts';
import type { ServerContext } from '../context.ts';
import { runWithEdgeContext } from '../edge-context.ts';
import type { Exchange, ServerLink, ServerMiddleware } from '../exchange.ts';
import { type Fault, faultOn, notDone, outcomeOf } from '../fault.ts';
import { Quota } from '../quota.ts';
import { sealedCodec, stateCodec } from './codec.ts';
import { type Answered, isOf, requestIn } from './continuation.ts';
import { ContinuationStore, OtherExtensionVersion } from './continuation-store.ts';
import { FlowCounters } from './counters.ts';
import { type Input, inputs } from './input.ts';
import { checkFlows, type FlowsOptions, type Limits, readLimits, readMode } from './options.ts';
import { FlowRecords } from './records.ts';
import { leaseRound, SHARED } from './single-use.ts';
import type { FlowMode } from './types.ts';

/** The error for every refused state, whatever the reason. */
export const REFUSED: RpcError = {
  code: INVALID_PARAMS,
  message: 'Invalid or expired requestState',
  data: { reason: 'invalid_request_state' },
};

/** The state and services that the flows of one server share. */
export interface Flows {
  /** Reads the answers that a call brings, and sends what its handler asks in place of its response. */
  readonly middleware: ServerMiddleware;
  /** Returns the capabilities that the server announces to the client. */
  families(introduction: Exchange): Families;
  /** Handles an answer that came without its call. Returns true if it belongs to a flow. */
  answered(response: Response, top: Top | undefined, link: ServerLink, extra: unknown): boolean;
  readonly context: ServerContext;
  readonly store: ContinuationStore;
  readonly counters: FlowCounters;
  readonly mode: FlowMode;
  readonly records: FlowRecords;
  readonly limits: Limits;
  /** Counts the calls that wait in this process. */
  readonly held: Quota;
  readonly connection: ConnectionCarrier;
  /** Returns the round that an exchange continues, or undefined for a first call. */
  inputOf(exchange: Exchange): Input | undefined;
  /**
   * Finds the round that a call of a client that cannot be asked continues.
   *
   * Returns the outcome instead if the same answer has been processed before.
   */
  recall(exchange: Exchange): Promise<Input | Response | undefined>;
  /** How clients that cannot be asked are served. */
  readonly fallback: FallbackOptions;
  readonly fault: Fault;
  /** Records that a state was refused. */
  refused(what: string, error: unknown): void;
  /** Whether a response claims to answer a question of a flow, genuine or not. */
  isAnswer(response: Response, top: Top | undefined): boolean;
  /**
   * Reads an answer that came without its call. Returns undefined if it belongs to no flow.
   *
   * `session` is the transport session that the answer came in, if any instance may be answered.
   */
  readAnswer(response: Response, top: Top | undefined, session?: string): Promise<Answered> | undefined;
  /** Whether the author has created a flow. */
  asks: boolean;
}

export function createFlows(context: ServerContext, options: FlowsOptions = {}): Flows {
  checkFlows(options);
  const { events } = context;
  if (options.codec?.plain) warnOfPlain(context);
  const counters = new FlowCounters();
  const limits = readLimits('flows', options.limits);
  const records = new FlowRecords(context, limits);
  const store = new ContinuationStore(
    stateCodec(options.codec ?? sealedCodec(context.sealer)),
    records,
    counters,
  );
  const held = new Quota({
    perCaller: { count: limits.perCaller.waiting },
    total: { count: limits.total.waiting },
    anonymousPart: 0.5,
  });
  const connection = new ConnectionCarrier(held, events);
  const fault = faultOn(events);
  const fallback: FallbackOptions = {
    fallback: options.fallback ?? 'url',
    questions: new PendingQuestions(records),
    page: options.page,
  };
  const isSingleUse = options.singleUse !== false && context.store !== undefined;

  const rejected = (what: string, error: unknown): void =>
    events.emit('rejected', { family: 'flows', what, reason: reasonOf(error) });

  const refused = (what: string, error: unknown): void => {
    counters.add('refused');
    rejected(what, error);
  };

  /** Takes the lease of the round that a call continues. Returns the outcome if the same answer was processed before. */
  const enter = async (
    exchange: Exchange,
    answered: Answered,
    isRecalled = false,
  ): Promise<Response | undefined> => {
    const lease = isSingleUse
      ? await leaseRound(records, answered, exchange.caller, leaseFailed).catch(notDone)
      : SHARED;
    if (lease.outcome) return exchange.respond(lease.outcome);
    counters.add('answered');
    inputs.set(exchange, { ...answered, lease, isRecalled });
    exchange.request = { ...exchange.request, params: withoutRetry(exchange.request.params) };
    return undefined;
  };

  const leaseFailed = (error: unknown): void =>
    events.emit('warning', {
      what: `A round could not be marked as answered: ${error instanceof Error ? error.message : 'the store failed'}`,
      next: 'Check the store. Until it answers, the round may be answered again.',
    });

  const readRound = async (exchange: Exchange): Promise<Answered | undefined> => {
    const { top, edgeContext } = exchange;
    const brought = edgeContext?.answered;
    if (brought && !isOf(brought.continuation, exchange.principal)) throw new SealError('wrong-subject');
    if (brought) return brought;
    if (top?.dependent_responses === undefined) return readRetry(exchange, store);
    const read = await readDependent(exchange, top.dependent_responses, store);
    if (!read) counters.add('notEchoed');
    return read;
  };

  /** Opens the answers that a call brings. Returns the response if the call is over with that. */
  const resume = async (exchange: Exchange): Promise<Response | undefined> => {
    try {
      const answered = await readRound(exchange);
      return answered && (await enter(exchange, answered));
    } catch (error) {
      if (isFault(error)) throw error;
      const brought = exchange.edgeContext?.answered;
      if (brought) brought.isRefused = true;
      refused('the context of a round', error);
      return exchange.respond({ error: REFUSED });
    }
  };

  /** Releases the lease. A lease that cannot be released expires by itself. */
  const release = (exchange: Exchange): void => {
    inputs
      .get(exchange)
      ?.lease.release()
      .catch(() => {});
  };

  /** Records the response to a call as the outcome of the round that it continues. */
  const finish = (exchange: Exchange, input: Input, response: Response): void => {
    // Nothing was done, so the call can be repeated with the same answer.
    if (exchange.runs === 0 || ('error' in response && outcomeIn(response.error) === 'not-done')) {
      release(exchange);
      return;
    }
    input.lease.done(response);
    // A question that cannot be removed now expires by itself.
    if (input.isRecalled) fallback.questions.close(exchange).catch(() => undefined);
  };

  const middleware: ServerMiddleware = async (exchange, next) => {
    const { request, top, edgeContext } = exchange;
    const isContinued =
      request.params?.['requestState'] !== undefined ||
      top?.dependent_responses !== undefined ||
      edgeContext?.answered !== undefined;
    const early = isContinued ? await resume(exchange) : undefined;
    if (early) return early;
    try {
      const response = await next();
      const input = inputs.get(exchange);
      if (!exchange.round) {
        if (input) finish(exchange, input, response);
        return response;
      }
      await input?.lease.goesOn().catch(notDone);
      const asking = await exchange.round(response);
      release(exchange);
      if (!asking) throw NO_RESPONSE;
      return asking;
    } catch (error) {
      if (outcomeOf(error) !== 'unknown') {
        release(exchange);
        throw error;
      }
      const failed = exchange.respond({ error: fault(error) });
      inputs.get(exchange)?.lease.done(failed);
      return failed;
    }
  };

  const answerEvents: AnswerEvents = {
    notEchoed() {
      counters.add('notEchoed');
      context.warnOnce('not-echoed', {
        what: 'A client announced that it echoes state, and does not.',
        next: store.hasStore
          ? 'It is served from the store.'
          : 'Give createValise a store, so that it can be served.',
      });
    },
    recalled: () => counters.add('recalled'),
    replaced(error) {
      counters.add('different');
      rejected('the state of a round, whose context is in the store', error);
    },
  };

  /** Gives the call of an answer to its handler again, as if it had been repeated, on a connection that stays open. */
  const retry = async (
    link: ServerLink,
    extra: unknown,
    { id }: Response,
    reading: Promise<Answered>,
  ): Promise<void> => {
    try {
      const answered = await reading;
      const request = requestIn(answered.continuation);
      if (!request) throw new SealError('malformed');
      // The edge handles answers itself, so any edge context here belongs to another message.
      const edgeContext = { owner: context, answered };
      runWithEdgeContext(edgeContext, () => link.transport.onmessage?.(request, extra));
    } catch (error) {
      const isOurs = isFault(error);
      if (!isOurs) refused('the answer of a round', error);
      const call = readQuestionId(id)?.call;
      // This bypasses the exchanges, because Valise may not know the call that the client names.
      if (call !== undefined)
        link
          .send({ jsonrpc: '2.0', id: call, error: isOurs ? fault(error) : REFUSED })
          .catch((unsent: unknown) => link.transport.onerror?.(unsent as Error));
    }
  };

  const flows: Flows = {
    middleware,
    // A server without flows asks nothing, so it does not announce the capability.
    families: (introduction) => (flows.asks && carriesState(introduction) ? { rounds: CARRIERS } : {}),
    answered(response, top, link, extra) {
      if (connection.answered(response, link)) return true;
      const reading = flows.readAnswer(response, top);
      if (!reading) return false;
      void retry(link, extra, response, reading);
      return true;
    },
    context,
    store,
    counters,
    mode: readMode(options.mode, context.store),
    records,
    limits,
    held,
    connection,
    inputOf: (exchange) => inputs.get(exchange),
    async recall(exchange) {
      const found = await fallback.questions.find(exchange);
      if (!found || !isOf(found.continuation, exchange.principal)) return undefined;
      return (await enter(exchange, found, true)) ?? inputs.get(exchange);
    },
    fallback,
    fault,
    refused,
    isAnswer: (response, top) => isAnswer(response, top, store),
    readAnswer: (response, top, session) =>
      isAnswer(response, top, store)
        ? readAnswerAlone(response, top, session, store, answerEvents)
        : undefined,
    asks: false,
  };
  return flows;
}

/** Returns why a state was refused, for the log. It never contains the state itself. */
function reasonOf(error: unknown): string {
  if (error instanceof OtherExtensionVersion)
    return `it began with version ${error.version} of ${NAMES.modern.extension.rounds}`;
  if (error instanceof SealError) return error.reason;
  return isObject(error) && typeof error['code'] === 'string' ? error['code'] : 'malformed';
}

/** Whether the server itself failed (such as an unavailable store), so that the error says nothing about the request. */
export function isFault(error: unknown): error is Error {
  return error instanceof Error && !(error instanceof SealError) && !(error instanceof SyntaxError);
}

function warnOfPlain({ warnOnce }: ServerContext): void {
  queueMicrotask(() =>
    warnOnce('plain-codec', {
      what: 'The context of flows travels unsealed: clients can read and change it.',
      next: 'Leave out flows.codec, so that it is sealed. The plain codec is for development.',
    }),
  );
}
