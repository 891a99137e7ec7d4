import type { Json } from '../../json.ts';
import { raise } from '../../link/top.ts';
import {
  dependentRequests,
  EXPIRES_AT,
  type Id,
  inputRequired,
  NAMES,
  type Request,
  type Result,
} from '../../wire/index.ts';
import { writeQuestionId } from '../../wire/question-id.ts';
import type { Asking } from '../edge-context.ts';
import type { Exchange, SendRound } from '../exchange.ts';
import { principalKey } from '../principal.ts';
import { type FlowContext, type StateCodec, stateText } from './codec.ts';
import { callOf, originalOf, peerLine, principalDigest, type RoundContext } from './context.ts';
import { FlowError } from './errors.ts';
import type { Keeper, KeepOptions } from './keeper.ts';
import type { Question } from './question.ts';
import { roomier, type Way } from './ways.ts';

/** The purpose of each text that travels. A text made for another purpose is refused. */
export const PURPOSE = {
  /** Comes back with the call itself and is bound to it. */
  call: 'round',
  /** One of several texts in a call, besides the first. */
  part: 'round-part',
  /** Comes back with the answer alone. */
  answer: 'round-answer',
  /** Comes back as the answer's id. */
  id: 'round-id',
} as const;

/** A round to send. */
export interface Sending {
  readonly exchange: Exchange;
  readonly questions: readonly Question[];
  readonly context: RoundContext;
  readonly keep: Pick<KeepOptions, 'mode' | 'budget' | 'ttl'>;
  /** Until when the client may ask for a new text, if the flow can be renewed, in milliseconds since 1970. */
  readonly renewBy?: number | undefined;
}

/** The services that sending a round needs. */
export interface Carrying {
  readonly keeper: Keeper;
  readonly codec: StateCodec;
  /** Hands the question to the HTTP edge, if the request came through it. */
  readonly suspend?: ((asking: Asking) => void) | undefined;
}

/**
 * The longest id of a question, since some clients and proxies truncate longer ones. Clients that carry state for us do not.
 */
const LONGEST_ID = 6 * 1024;

/** Prepares a round for sending with the given carrier, or with another that has room for it. */
export async function carry(
  way: Exclude<Way, 'memory'>,
  ways: readonly Way[],
  round: Sending,
  carrying: Carrying,
): Promise<SendRound> {
  let sending = round;
  if (round.exchange.peer.families.expiry) {
    // The client stores questions, and tells its user until when they can be answered.
    const expiry = { [EXPIRES_AT]: new Date(round.context.e * 1000).toISOString() };
    const questions: Question[] = [];
    for (const question of round.questions)
      questions.push({
        ...question,
        params: { ...question.params, _meta: { ...question.params?._meta, ...expiry } },
      });
    sending = { ...round, questions };
  }
  try {
    return await carryBy(way, sending, carrying);
  } catch (error) {
    const other = roomier(way, ways);
    if (!other || !(error instanceof FlowError) || error.code !== 'too-large') throw error;
    return carryBy(other, sending, carrying);
  }
}

function carryBy(way: Exclude<Way, 'memory'>, sending: Sending, carrying: Carrying): Promise<SendRound> {
  switch (way) {
    case 'request-state':
      return byRequestState(sending, carrying);
    case 'dependent-shared':
      return byDependent(sending, carrying, false);
    case 'dependent-each':
      return byDependent(sending, carrying, true);
    case 'state':
    case 'id':
      return byQuestion(way, sending, carrying);
  }
}

/** Returns the subject and binding for the seal of a context that comes back with its call. */
export function boundTo({ request, principal }: Exchange): {
  readonly subject: string | undefined;
  readonly bind: Json;
} {
  return { subject: principalKey(principal), bind: callOf(request) };
}

async function byRequestState(sending: Sending, { keeper }: Carrying): Promise<SendRound> {
  const { exchange, questions, context, keep, renewBy } = sending;
  const state = await keeper.keep(context, {
    ...keep,
    ...boundTo(exchange),
    purpose: PURPOSE.call,
    findable: false,
    caller: exchange.caller,
  });
  const inputRequests = Object.fromEntries(
    questions.map(({ key, method, params }) => [key, { method, ...(params && { params }) }]),
  );
  const round = inputRequired({
    requestState: stateText(state),
    ...(questions.length > 0 && { inputRequests }),
  });
  const own = renewBy === undefined ? undefined : { [NAMES.modern.extension.rounds]: { renewBy } };
  return async (answer) => {
    const meta = { ...('result' in answer ? answer.result._meta : undefined), ...own };
    return { jsonrpc: '2.0', id: exchange.request.id, result: withMeta(round, meta) };
  };
}

function withMeta(result: Result, meta: Result['_meta'] & object): Result {
  return Object.keys(meta).length === 0 ? result : { ...result, _meta: meta };
}

async function byDependent(sending: Sending, { keeper, codec }: Carrying, each: boolean): Promise<SendRound> {
  const { exchange, questions, context, keep } = sending;
  const seal = { ...boundTo(exchange), ttl: keep.ttl };
  const state = await keeper.keep(context, {
    ...keep,
    ...seal,
    purpose: PURPOSE.call,
    findable: false,
    caller: exchange.caller,
  });
  const asked = questions.map(({ method, params }) => ({ method, ...(params && { params }) }));
  // If each question has its own state, there must be a question to hold it.
  const requests = each && asked.length === 0 ? [{ method: 'ping' }] : asked;
  const stateOf = (place: number): FlowContext =>
    place === 0 ? state : codec.seal([context.f, context.n, place], { ...seal, purpose: PURPOSE.part });
  const round = each
    ? dependentRequests({
        requests: requests.map((request, place) => ({ state: stateOf(place), ...request })),
      })
    : dependentRequests({ state, requests });
  const dependent_requests = JSON.stringify(round.dependent_requests);
  const message = raise(
    { jsonrpc: '2.0' as const, id: exchange.request.id, result: {} },
    { dependent_requests },
    { without: 'result' },
  );
  return async () => message;
}

async function byQuestion(
  way: 'state' | 'id',
  sending: Sending,
  { keeper, suspend }: Carrying,
): Promise<SendRound> {
  const { exchange, questions, keep } = sending;
  const byId = way === 'id';
  const u = principalDigest(exchange.principal);
  const context: RoundContext = {
    ...sending.context,
    o: originalOf(exchange),
    c: peerLine(exchange.peer),
    ...(u !== undefined && { u }),
    ...(suspend && exchange.transportSession !== undefined && { s: exchange.transportSession }),
  };
  const state = await keeper.keep(context, {
    ...keep,
    ...(byId && !exchange.peer.families.state && { most: LONGEST_ID }),
    purpose: byId ? PURPOSE.id : PURPOSE.answer,
    findable: !byId,
    caller: exchange.caller,
  });
  const id = byId
    ? stateText(state)
    : writeQuestionId({ flow: context.f, round: context.n, call: exchange.request.id });
  const message = questionMessage(questions[0], id, byId ? undefined : state);
  return async () => {
    if (suspend) suspend({ message, context, byId });
    else await exchange.link.send(message, { relatedRequestId: exchange.request.id });
    return undefined;
  };
}

/** Returns the question as a request of the server. Without a question it is a `ping`, which every client answers. */
function questionMessage(question: Question | undefined, id: Id, state: FlowContext | undefined): Request {
  const { method, params } = question ?? { method: 'ping', params: undefined };
  const request: Request = { jsonrpc: '2.0', id, method, ...(params && { params }) };
  return state === undefined ? request : raise(request, { state: JSON.stringify(state) });
}
