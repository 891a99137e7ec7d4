import type { TransportLike } from '../../core/instrument.ts';
import { isObject } from '../../core/json.ts';
import { isLowered, stdinOf } from '../../edge/stdio.ts';
import { type Carrier as DraftCarrier, EXPIRES_AT, INPUT_METHODS } from '../../wire/index.ts';
import type { Exchange, SendRound } from '../exchange.ts';
import type { ContinuationStore } from '../flows/continuation-store.ts';
import { FlowError } from '../flows/errors.ts';
import { isHttp } from '../peer.ts';
import { askByDependentRequests } from './dependent-requests.ts';
import { askByResult, type Round } from './input-required.ts';
import { askByRequest } from './server-request.ts';

/**
 * How a flow's questions reach a client, in addition to the carriers of the drafts that it may have announced:
 *
 * - `request-state`: the call's result asks, and the client repeats the call with the answers (2026-07-28)
 * - `id`: the id of the question carries the continuation, and every client sends it back
 * - `connection`: the question is asked on the connection, which the answer comes back on
 */
export type CarrierName = DraftCarrier | 'request-state' | 'id' | 'connection';

/** Returns the carriers for the client of an exchange, best first. */
export function carriersOf(exchange: Exchange): readonly CarrierName[] {
  const { codec, method, peer, extra, link, edgeContext } = exchange;
  if (codec.asksByResult) return INPUT_METHODS.includes(method) ? ['request-state'] : [];
  const announced = peer.families.rounds;
  if (!isHttp(extra)) return bringsTop(link.transport) ? [...announced, 'connection'] : ['connection'];
  const isEdge = edgeContext?.suspend !== undefined;
  const own = isEdge ? announced : [];
  // Answers in a transport session come back to the instance that holds it. Without a session they may reach any instance.
  if (link.transport.sessionId !== undefined) return [...own, 'connection'];
  return isEdge ? [...own, 'id'] : [];
}

/** Whether state that a client echoes comes back on the connection that it introduces itself on. */
export function carriesState({ codec, extra, link, edgeContext }: Exchange): boolean {
  return codec.asksByResult || (isHttp(extra) ? edgeContext !== undefined : bringsTop(link.transport));
}

/** Whether the SDK passes a result that asks through. One that does not serve 2026-07-28 would process it further. */
export function passesQuestions({ codec, extra }: Exchange): boolean {
  const classification = isObject(extra) ? extra['classification'] : undefined;
  return codec.asksByResult && isObject(classification) && classification['era'] === codec.era;
}

/** Returns the best carrier for this many questions at once. If it takes only one, the others are asked after it. */
export function pickCarrier(carriers: readonly CarrierName[], questions: number): CarrierName | undefined {
  const together = questions === 1 ? undefined : carriers.find((name) => name.startsWith('dependent'));
  return together ?? carriers[0];
}

/** Whether a carrier takes one question at a time, whose answer comes alone. */
export function isSingle(name: CarrierName): boolean {
  return name === 'state' || name === 'id';
}

/**
 * Prepares a round for sending, by the named carrier or another that has room for it.
 *
 * It runs inside the handler, so that the handler's caller learns about a round that is too large.
 */
export async function prepareRound(
  name: Exclude<CarrierName, 'connection'>,
  carriers: readonly CarrierName[],
  round: Round,
  store: ContinuationStore,
): Promise<SendRound> {
  const timed = round.exchange.peer.families.expiry ? withExpiry(round) : round;
  try {
    return await prepareBy(name, timed, store);
  } catch (error) {
    // If the answer comes with its call, the state need not contain the call.
    const roomier = isSingle(name) ? carriers.find((other) => other.startsWith('dependent')) : undefined;
    if (!roomier || !(error instanceof FlowError) || error.code !== 'too-large') throw error;
    return prepareBy(roomier as DraftCarrier, timed, store);
  }
}

function prepareBy(
  name: Exclude<CarrierName, 'connection'>,
  round: Round,
  store: ContinuationStore,
): Promise<SendRound> {
  switch (name) {
    case 'request-state':
      return askByResult(round, store);
    case 'dependent-shared':
    case 'dependent-each':
      return askByDependentRequests(round, store, name === 'dependent-each');
    case 'state':
    case 'id':
      return askByRequest(round, store, name === 'id');
  }
}

/** Adds the end of the round to its questions. The client stores them, and tells its user until when to answer. */
function withExpiry(round: Round): Round {
  const expiry = { [EXPIRES_AT]: new Date(round.continuation.e * 1000).toISOString() };
  const questions = round.questions.map((question) => ({
    ...question,
    params: { ...question.params, _meta: { ...question.params?._meta, ...expiry } },
  }));
  return { ...round, questions };
}

/** Returns the error for a client that no carrier reaches. */
export function noCarrier({ codec, method }: Exchange, key: string): FlowError {
  return codec.asksByResult
    ? new FlowError(
        'no-carrier',
        `"${key}" cannot be asked while ${method} is answered: this revision does not allow it.`,
        { key, next: `Ask in ${INPUT_METHODS.join(', ')} only.` },
      )
    : new FlowError(
        'no-carrier',
        `"${key}" cannot be asked: answers would not find their way back to this server.`,
        {
          key,
          next: 'Wrap the HTTP handler in valise.http(), so that any instance can take the answer.',
        },
      );
}

/** Whether a client's top-level members reach us: there are no bytes in between, or our own edge reads them. */
function bringsTop(transport: TransportLike): boolean {
  // The property name of the in-memory pair in both SDK majors.
  const { _otherTransport } = transport as TransportLike & { readonly _otherTransport?: unknown };
  return _otherTransport !== undefined || isLowered(stdinOf(transport));
}
