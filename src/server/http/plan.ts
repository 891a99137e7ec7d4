import { messageOf } from '../../errors.ts';
import { lowerObject, parseLowered, takeTop } from '../../link/top.ts';
import { SealError } from '../../seal/index.ts';
import {
  eraOf,
  INPUT_METHODS,
  isModernVersion,
  isNotification,
  isRequest,
  isResponse,
  type Message,
  type Request,
  readTargetParams,
} from '../../wire/index.ts';
import { callerOf } from '../caller.ts';
import type { ServerContext } from '../context.ts';
import type { EdgeContext } from '../edge-context.ts';
import { type Answered, isOf, peerIn, requestIn } from '../flows/context.ts';
import { isFault, REFUSED } from '../flows/opening.ts';
import type { Rounds } from '../flows/rounds.ts';
import { isUnknownKey } from '../own-keys.ts';
import type { Principal } from '../principal.ts';
import type { Edge } from './edge.ts';
import { ELSEWHERE } from './question-streams.ts';
import { mintSessionId } from './session-id.ts';
import { NOT_FOUND, Stray } from './stray.ts';

/** An HTTP request as both forms of the edge see it. */
export interface Inbound {
  readonly method: string;
  header(name: string): string | undefined;
  /** The body: unparsed text, or a value that was parsed before it reached the edge. */
  readonly body: { readonly text: string } | { readonly parsed: unknown } | undefined;
  /** The body as received, parsed. A plan with a different body replaces it. */
  came?: unknown;
  readonly principal: Principal | undefined;
  /** Returns the URL of the request without its query. */
  page(): string;
}

/** A response that the edge gives by itself. */
export interface Plain {
  readonly status: number;
  readonly error?: object;
}

/** The action that the edge takes on a request. */
export type Plan =
  /**
   * The SDK handles the request, with what the edge knows about it. `mint` is a session id for the response, if the SDK gives
   * none.
   */
  | {
      readonly do: 'serve';
      readonly body: unknown;
      readonly edgeContext?: EdgeContext;
      readonly mint?: string;
    }
  /** Like `serve`, but the handler may ask a question in place of the answer. */
  | { readonly do: 'call'; readonly body: unknown; readonly edgeContext: EdgeContext }
  /** The answer to a question that was sent by id. The SDK handles the call, and the client fetches the outcome. */
  | {
      readonly do: 'mail';
      readonly body: Request;
      readonly edgeContext: EdgeContext;
      readonly answered: Answered;
    }
  /** A client fetches the outcome of its answer. */
  | { readonly do: 'fetch'; readonly event: string }
  | { readonly do: 'reply'; readonly reply: Plain };

const SESSION_HEADER = 'mcp-session-id';

const ONE_ANSWER = {
  code: -32600,
  message: 'Invalid Request: one answer per POST, and nothing else with it',
};

/** Decides how to handle a request. Returns a promise only if it must wait, since this runs for every call. */
export function planFor(inbound: Inbound, edge: Edge, address?: string): Plan | Promise<Plan> {
  const session = sessionOf(inbound, edge, address);
  if (session === 'gone') return reply(404, NOT_FOUND);
  const { transportSession } = session;
  if (transportSession === undefined) return planIn(session, inbound, edge);
  const isEnded = edge.ended.has(transportSession);
  return isEnded || inbound.method === 'DELETE'
    ? planOnce(isEnded, transportSession, session, inbound, edge)
    : planIn(session, inbound, edge);
}

/** Decides how to handle a request once it is known whether its session was ended. */
async function planOnce(
  isEnded: Promise<boolean> | undefined,
  transportSession: string,
  session: EdgeContext,
  inbound: Inbound,
  edge: Edge,
): Promise<Plan> {
  if (await isEnded) return reply(404, NOT_FOUND);
  if (inbound.method !== 'DELETE') return planIn(session, inbound, edge);
  const { principal, header } = inbound;
  // The caller is identified by address or by the author's function, since each id is another transport session.
  const facts = { principal, header, address: session.address, transportSession: undefined };
  const caller = callerOf(facts, edge.tellCaller);
  return reply((await edge.ended.add(transportSession, principal, caller)) ? 200 : 405);
}

function planIn(session: EdgeContext, inbound: Inbound, edge: Edge): Plan | Promise<Plan> {
  const { rounds } = edge;
  if (inbound.method === 'GET') edge.questionStreams.sawGet = true;
  const event = inbound.method === 'GET' ? inbound.header('last-event-id') : undefined;
  if (event !== undefined && isSealed(event)) return { do: 'fetch', event };
  if (!inbound.body) return { do: 'serve', body: undefined, edgeContext: session };
  let body: unknown;
  try {
    if ('text' in inbound.body) {
      inbound.came = JSON.parse(inbound.body.text);
      body = parseLowered(inbound.body.text, inbound.came);
    } else {
      inbound.came = inbound.body.parsed;
      body = lowerObject(inbound.came);
    }
  } catch {
    // Whatever is behind the edge reports the error in its own way, and gets the body as received.
    return { do: 'serve', body: undefined, edgeContext: session };
  }
  if (![body].flat().some((each) => isRequest(each) || isNotification(each) || isResponse(each)))
    return { do: 'serve', body: 'text' in inbound.body ? undefined : body, edgeContext: session };
  if (Array.isArray(body)) {
    // The outcome of an answer is sent in the response to its own POST, or fetched later. There is no place for two.
    if (body.length > 1 && body.some((each) => isAnswerIn(each, rounds))) return reply(400, ONE_ANSWER);
    if (body.length === 1) [body] = body as unknown[];
  }
  if (session.stray && (names(body, session.stray.id) || isModernNote(body, inbound)))
    session.stray.judge(true);
  if (isRequest(body)) return planRequest(body, session, inbound, edge);
  if (isResponse(body)) return planAnswer(body, session, inbound, edge);
  const plan: Plan = { do: 'serve', body, edgeContext: session };
  return session.transportSession === undefined
    ? plan
    : takeBack(body, session.transportSession, edge).then(() => plan);
}

/**
 * Whether a message is a notification of the newer era, in which session ids mean nothing.
 *
 * Unlike a request, a notification need not name its era.
 */
function isModernNote(body: unknown, { header }: Inbound): boolean {
  return (
    isNotification(body) && (eraOf(body) === 'modern' || isModernVersion(header('mcp-protocol-version')))
  );
}

/** Whether a message names this data-layer session, whose id may also be in the transport's session header. */
function names(body: unknown, id: string): boolean {
  return (Array.isArray(body) ? body : [body]).some((each) => {
    if (!isRequest(each) && !isNotification(each)) return false;
    const target = readTargetParams(each.params);
    return 'session' in target && target.session.sessionId === id;
  });
}

function isAnswerIn(body: unknown, rounds: Rounds): boolean {
  if (!isResponse(body)) return false;
  const { message, top } = takeTop(body);
  return isResponse(message) && rounds.isAnswer(message, top);
}

/**
 * Withdraws the questions of cancelled calls. The SDK does not know calls that another instance or an earlier request handled.
 */
async function takeBack(
  body: unknown,
  transportSession: string,
  { questionStreams, rounds }: Edge,
): Promise<void> {
  try {
    for (const each of Array.isArray(body) ? body : [body])
      if (isNotification(each) && each.method === 'notifications/cancelled')
        await questionStreams.cancel(transportSession, each.params?.['requestId']);
  } catch (error) {
    // A notification has no response, and any other message in the body is still handled.
    rounds.context.warnOnce('not-taken-back', {
      what: `The question of a call that was cancelled could not be taken back: ${messageOf(error)}`,
      next: 'Check the store; until it answers, such questions stay open.',
    });
  }
}

function planRequest(body: Request, edgeContext: EdgeContext, inbound: Inbound, { rounds, ids }: Edge): Plan {
  if (body.method === 'initialize' && eraOf(body) === 'legacy') {
    const mint = mintSessionId(rounds.context.sealer, body, inbound.principal);
    if (mint === undefined) return { do: 'serve', body, edgeContext };
    // State that is set during `initialize` belongs to the session that it begins.
    const { transportSession } = ids.open(mint, inbound.principal);
    return { do: 'serve', body, edgeContext: { ...edgeContext, transportSession }, mint };
  }
  // Requests of the newer era are self-contained.
  if (eraOf(body) === 'modern' && edgeContext.transportSession === undefined) {
    const { owner, address, page } = edgeContext;
    const own = { owner, ...(page && { page }) };
    return { do: 'serve', body, edgeContext: address === undefined ? own : { ...own, address } };
  }
  const mayAsk = INPUT_METHODS.includes(body.method) && eraOf(body) === 'legacy';
  return { do: mayAsk ? 'call' : 'serve', body, edgeContext };
}

/** Handles a response: the answer to one of our questions, on any instance, or one that the SDK waits for. */
async function planAnswer(
  body: Message,
  session: EdgeContext,
  inbound: Inbound,
  { rounds, questionStreams }: Pick<Edge, 'rounds' | 'questionStreams'>,
): Promise<Plan> {
  const { message, top } = takeTop(body);
  if (!isResponse(message)) return { do: 'serve', body, edgeContext: session };
  // Without any session, the answer belongs to no question's session.
  const at = session.transportSession ?? session.stray?.id ?? '';
  const opening = rounds.openAnswer(message, top, at);
  if (!opening) return { do: 'serve', body, edgeContext: session };
  try {
    const answered = await opening;
    const request = requestIn(answered.context);
    const byId = typeof message.id === 'string' && rounds.codec.recognises(message.id);
    // Auth may be verified behind the edge and is then compared there. The outcome of an answer by id is fetched here.
    const isOpen = inbound.principal === undefined && !byId;
    if (!request || !(isOpen || isOf(answered.context, inbound.principal))) {
      if (!inbound.principal) warnOfNobody(rounds.context);
      throw new SealError('wrong-subject');
    }
    if (byId && (await questionStreams.isCancelled(answered.context))) throw new SealError('replayed');
    if (byId && (await questionStreams.isElsewhere(answered.context))) return reply(400, ELSEWHERE);
    // The answer itself proves what it is about.
    session.stray?.judge(true);
    const peer = session.peer ?? peerIn(answered.context);
    const edgeContext: EdgeContext = { ...session, ...(peer && { peer }), answered };
    return byId
      ? { do: 'mail', body: request, edgeContext, answered }
      : { do: 'call', body: request, edgeContext };
  } catch (error) {
    if (isFault(error)) throw error;
    rounds.refused('the answer of a round', error);
    return reply(400, REFUSED);
  }
}

function warnOfNobody({ warnOnce }: ServerContext): void {
  warnOnce('auth-behind-edge', {
    what: 'The answer of a client was refused: its call was made by somebody, and nobody was known at valise.http().',
    next: 'Verify auth before valise.http() sees a request, and hand it over as request.auth or authInfo; or give createValise the option principal.',
  });
}

/** Returns what the session id proves: nothing yet if the id is not ours, `gone` if it is not genuine. */
function sessionOf(
  inbound: Inbound,
  { rounds: { context: owner }, ids }: Edge,
  address: string | undefined,
): EdgeContext | 'gone' {
  const { page } = inbound;
  const known = address === undefined ? { owner, page } : { owner, page, address };
  const id = inbound.header(SESSION_HEADER);
  if (id === undefined) return known;
  if (!isSealed(id)) {
    const stray = new Stray(id, owner.events);
    if (ids.othersGiven) stray.judge(true);
    return { ...known, stray };
  }
  try {
    return { ...known, ...ids.open(id, inbound.principal) };
  } catch (error) {
    if (isUnknownKey(error)) throw error;
    owner.events.emit('rejected', { family: 'sessions', what: 'a transport session', reason: 'not genuine' });
    return 'gone';
  }
}

/** Whether a text looks like a seal. Ids of the SDKs never do. */
function isSealed(text: string): boolean {
  return text.startsWith('v1.') && text[11] === '.';
}

function reply(status: number, error?: object): Plan {
  return { do: 'reply', reply: { status, ...(error && { error }) } };
}

/** Returns the body of an error response that the edge gives by itself. */
export function errorBody(error: object): string {
  return JSON.stringify({ jsonrpc: '2.0', id: null, error });
}
