import { NO_RESPONSE } from '../../core/compose.ts';
import type { Top } from '../../link/top.ts';
import { SealError, type SealReason } from '../../seal/index.ts';
import { CARRIERS, type Families, outcomeIn, type Response } from '../../wire/index.ts';
import { readQuestionId } from '../../wire/question-id.ts';
import type { FallbackOptions } from '../carriers/fallback.ts';
import { OpenQuestions } from '../carriers/open-questions.ts';
import type { ServerContext } from '../context.ts';
import { runWithEdgeContext } from '../edge-context.ts';
import type { Exchange, ServerLink, ServerMiddleware } from '../exchange.ts';
import { type Fault, faultOn, notDone, outcomeOf } from '../fault.ts';
import { isUnknownKey } from '../own-keys.ts';
import { Quota } from '../quota.ts';
import { Slot } from '../slot.ts';
import { PURPOSE } from './carry.ts';
import { type StateCodec, sealedCodec, stateCodec } from './codec.ts';
import { type Answered, isOf, type RoundContext, requestIn } from './context.ts';
import { RoundCounters } from './counters.ts';
import { createKeeper, type Keeper } from './keeper.ts';
import { type Limits, readLimits } from './limits.ts';
import { isFault, openCall, REFUSED, reasonOf, withoutRetry } from './opening.ts';
import { inPresent, readAnswer } from './present-session.ts';
import { FlowRecords } from './records.ts';
import { checkRounds, type FlowsOptions, readMode } from './settings.ts';
import { SHARED, type Turn, takeTurn } from './turn.ts';
import type { FlowMode } from './types.ts';
import { Waiting } from './waiting.ts';
import { carries } from './ways.ts';

/** A round's answer, with the right to continue from it. */
export interface Input extends Answered {
  readonly turn: Turn;
  /** Whether the call was found again by what carries its client's state. */
  readonly isRecalled?: boolean;
}

/** The state and services that the rounds of one server share. */
export interface Rounds {
  /** Sends the questions that a call asks in place of its answer, and settles the round that the call continues. */
  readonly carry: ServerMiddleware;
  /** Opens what a client has sent back, for the flow to continue from. */
  readonly resume: ServerMiddleware;
  /** Returns the capabilities that the server announces to the client. */
  families(introduction: Exchange): Families;
  /** Handles an answer that came without its call. Returns true if it belongs to a round. */
  answered(response: Response, top: Top | undefined, link: ServerLink, extra: unknown): boolean;
  readonly context: ServerContext;
  readonly codec: StateCodec;
  readonly keeper: Keeper;
  readonly counters: RoundCounters;
  readonly mode: FlowMode;
  readonly records: FlowRecords;
  readonly limits: Limits;
  /** Counts the calls that wait in this process. */
  readonly held: Quota;
  readonly waiting: Waiting;
  /** Returns what an exchange continues from, or undefined for a first call. */
  inputOf(exchange: Exchange): Input | undefined;
  /**
   * Finds what a call of a client that cannot be asked continues from.
   *
   * Returns the outcome instead if the same answer has been processed before.
   */
  recall(exchange: Exchange): Promise<Input | Response | undefined>;
  /** How clients that cannot be asked are served. */
  readonly around: FallbackOptions;
  readonly fault: Fault;
  /** Records that a context was refused. */
  refused(what: string, error: unknown): void;
  /** Whether a response claims to answer a question of a round, genuine or not. */
  isAnswer(response: Response, top: Top | undefined): boolean;
  /**
   * Reads an answer that came without its call. Returns undefined if it belongs to no round.
   *
   * `session` is the transport session that the answer came in, if any instance may be answered. An answer without its context
   * is accepted only in that session.
   */
  openAnswer(response: Response, top: Top | undefined, session?: string): Promise<Answered> | undefined;
  /** Whether the author has created a flow. */
  asks: boolean;
}

const inputs = new Slot<Input>();

export function createRounds(context: ServerContext, options: FlowsOptions = {}): Rounds {
  checkRounds(options);
  const { store, events } = context;
  const codec = stateCodec(options.codec ?? sealedCodec(context.sealer));
  if (options.codec?.plain) warnOfPlain(context);
  const counters = new RoundCounters();
  const limits = readLimits(options.limits);
  const records = new FlowRecords(context, limits);
  const keeper = createKeeper(codec, records, counters);
  const held = new Quota({
    perCaller: { count: limits.perCaller.waiting },
    total: { count: limits.total.waiting },
    anonymousPart: 0.5,
  });
  const waiting = new Waiting(held, events);
  const fault = faultOn(events);
  const around: FallbackOptions = {
    fallback: options.fallback ?? 'url',
    questions: new OpenQuestions(records),
    page: options.page,
  };
  const once = options.singleUse === false || !store ? undefined : records;

  const refused = (what: string, error: unknown): void => {
    counters.add('refused');
    events.emit('rejected', { family: 'rounds', what, reason: reasonOf(error) });
  };

  const refusal = (exchange: Exchange, error: unknown): Response => {
    if (isFault(error)) throw error;
    const brought = exchange.edgeContext?.answered;
    if (brought) brought.isRefused = true;
    refused('the context of a round', error);
    return exchange.respond({ error: REFUSED });
  };

  const open = (exchange: Exchange): Answered | undefined | Promise<Answered> => {
    const brought = exchange.edgeContext?.answered;
    if (brought && !isOf(brought.context, exchange.principal)) throw new SealError('wrong-subject');
    return brought ?? openCall(exchange, rounds);
  };

  /** Records what a call continues from. Returns the outcome if the same answer has been processed before. */
  const enter = async (
    exchange: Exchange,
    answered: Answered,
    isRecalled = false,
  ): Promise<Response | undefined> => {
    const turn = once
      ? await takeTurn(once, answered, exchange.caller, (error) => storeFailed(context, error)).catch(notDone)
      : SHARED;
    if (turn.outcome) return exchange.respond(turn.outcome);
    counters.add('answered');
    inputs.set(exchange, { ...answered, turn, isRecalled });
    exchange.request = { ...exchange.request, params: withoutRetry(exchange.request.params) };
    return undefined;
  };

  const resume: ServerMiddleware = async (exchange, next) => {
    // The handler may be running again. It still continues from the same input.
    if (inputs.get(exchange)) return next();
    let outcome: Response | undefined;
    try {
      const opened = open(exchange);
      if (opened) outcome = await enter(exchange, await opened);
      else if (exchange.top?.dependent_responses !== undefined) counters.add('notEchoed');
    } catch (error) {
      return refusal(exchange, error);
    }
    return outcome ?? next();
  };

  /** Releases the lease. A lease that cannot be released expires by itself. */
  const abandon = (exchange: Exchange): void => {
    inputs
      .get(exchange)
      ?.turn.abandon()
      .catch(() => {});
  };

  const carry: ServerMiddleware = async (exchange, next) => {
    try {
      const response = await next();
      const turn = inputs.get(exchange)?.turn;
      if (exchange.round) {
        await turn?.goesOn().catch(notDone);
        const asking = await exchange.round(response);
        abandon(exchange);
        if (!asking) throw NO_RESPONSE;
        return asking;
      }
      // A response that could not be stored can be retried with the same answer.
      if ('error' in response && outcomeIn(response.error) === 'not-done') abandon(exchange);
      else {
        turn?.done(response);
        // A question that cannot be removed now expires by itself.
        if (inputs.get(exchange)?.isRecalled) around.questions.close(exchange).catch(() => undefined);
      }
      return response;
    } catch (error) {
      if (outcomeOf(error) !== 'unknown') {
        abandon(exchange);
        throw error;
      }
      const failed = exchange.respond({ error: fault(error) });
      inputs.get(exchange)?.turn.done(failed);
      return failed;
    }
  };

  const isAnswer = ({ id }: Response, top: Top | undefined): boolean =>
    top?.state !== undefined || readQuestionId(id) !== undefined || codec.recognises(id);

  const openAnswer: Rounds['openAnswer'] = (response, top, session) => {
    if (!isAnswer(response, top)) return undefined;
    const { answer, session: present } = readAnswer(response);
    const answering = (context: Answered['context']): Answered => {
      const key = context.q?.[0]?.[0];
      return { ...inPresent(context, present), answers: new Map(key === undefined ? [] : [[key, answer]]) };
    };
    const named = readQuestionId(response.id);
    // The id of a question is not secret: it contains the flow's id, which authors log.
    const inSession = (kept: RoundContext): RoundContext => {
      if (kept.s !== session) throw new SealError('wrong-subject');
      return kept;
    };
    if (top?.state !== undefined) {
      const text = top.state;
      return Promise.resolve().then(async () => {
        try {
          return answering(await keeper.find(JSON.parse(text), { purpose: PURPOSE.answer }));
        } catch (error) {
          if (!named || !isDamaged(error)) throw error;
          const kept = await keeper.replace(named.flow, named.round);
          if (!kept) throw error;
          const context = inSession(kept);
          counters.add('different');
          const what = 'the state of a round, whose context is in the store';
          events.emit('rejected', { family: 'rounds', what, reason: reasonOf(error) });
          return answering(context);
        }
      });
    }
    if (named) {
      counters.add('notEchoed');
      context.warnOnce('not-echoed', {
        what: 'A client announced that it echoes state, and does not.',
        next: keeper.hasStore
          ? 'It is served from the store.'
          : 'Give createValise a store, so that it can be served.',
      });
      return keeper.recall(named.flow, named.round).then((kept) => {
        if (!kept) throw new SealError('expired');
        const context = inSession(kept);
        counters.add('recalled');
        return answering(context);
      });
    }
    const id = response.id as string;
    return Promise.resolve().then(async () => answering(await keeper.find(id, { purpose: PURPOSE.id })));
  };

  /** Gives the call to its handler again, as if it had been repeated, on a connection that stays open. */
  const replay = async (
    link: ServerLink,
    extra: unknown,
    { id }: Response,
    opening: Promise<Answered>,
  ): Promise<void> => {
    try {
      const answered = await opening;
      const request = requestIn(answered.context);
      if (!request) throw new SealError('malformed');
      // The edge handles answers itself, so any edge context here belongs to another message.
      const edgeContext = { owner: context, answered };
      runWithEdgeContext(edgeContext, () => link.transport.onmessage?.(request, extra));
    } catch (error) {
      const told = isFault(error) ? fault(error) : REFUSED;
      if (told === REFUSED) refused('the answer of a round', error);
      const call = readQuestionId(id)?.call;
      // This bypasses the exchanges, because the call that the client names may not be one of ours.
      if (call !== undefined)
        link
          .send({ jsonrpc: '2.0', id: call, error: told })
          .catch((unsent: unknown) => link.transport.onerror?.(unsent as Error));
    }
  };

  const rounds: Rounds = {
    carry,
    resume,
    // A server without flows asks nothing, so it does not announce the capability.
    families: (introduction) =>
      rounds.asks && carries(introduction, introduction.edgeContext !== undefined)
        ? { rounds: CARRIERS }
        : {},
    answered(response, top, link, extra) {
      if (waiting.answered(response, link)) return true;
      const opening = openAnswer(response, top);
      if (!opening) return false;
      void replay(link, extra, response, opening);
      return true;
    },
    context,
    codec,
    keeper,
    counters,
    mode: readMode(options.mode, store),
    records,
    limits,
    held,
    waiting,
    inputOf: (exchange) => inputs.get(exchange),
    async recall(exchange) {
      const found = await around.questions.find(exchange);
      if (!found || !isOf(found.context, exchange.principal)) return undefined;
      return (await enter(exchange, found, true)) ?? inputs.get(exchange);
    },
    around,
    fault,
    refused,
    isAnswer,
    openAnswer,
    asks: false,
  };
  return rounds;
}

/**
 * Whether a state fails to prove that this server made it. A state that is late, foreign or used is genuine, and is refused.
 */
function isDamaged(error: unknown): boolean {
  return error instanceof SealError ? DAMAGED.includes(error.reason) : isUnknownKey(error);
}

const DAMAGED: readonly string[] = ['malformed', 'tampered', 'unknown-key'] satisfies SealReason[];

function storeFailed(context: ServerContext, error: unknown): void {
  context.events.emit('warning', {
    what: `A round could not be marked as answered: ${error instanceof Error ? error.message : 'the store failed'}`,
    next: 'Check the store; until it answers, the round may be answered again.',
  });
}

function warnOfPlain({ warnOnce }: ServerContext): void {
  queueMicrotask(() =>
    warnOnce('plain-codec', {
      what: 'The context of rounds travels in the open: clients can read and change it.',
      next: 'Leave out rounds.codec, so that it is sealed; the plain codec is for development.',
    }),
  );
}
