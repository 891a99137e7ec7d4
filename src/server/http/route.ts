import { messageOf } from '../../core/errors.ts';
import { lowerObject, parseLowered, takeTop } from '../../edge/drafts.ts';
import { SealError } from '../../seal/index.ts';
import { codecOf } from '../../wire/codec.ts';
import {
  INPUT_METHODS,
  isNotification,
  isRequest,
  isResponse,
  type Message,
  type Request,
  readTargetParams,
} from '../../wire/index.ts';
import { callerOf, type TellCaller } from '../caller.ts';
import type { ServerContext } from '../context.ts';
import type { EdgeContext } from '../edge-context.ts';
import type { Fault } from '../fault.ts';
import { type Answered, isOf, peerIn, requestIn } from '../flows/continuation.ts';
import { type Flows, isFault, REFUSED } from '../flows/flows.ts';
import { isUnknownKey } from '../own-keys.ts';
import type { Principal, TellPrincipal } from '../principal.ts';
import { ELSEWHERE, type Mailbox } from './mailbox.ts';
import {
  ForeignSession,
  NOT_FOUND,
  type SealedSession,
  type SessionIds,
  type TerminatedSessions,
} from './transport-session.ts';

/** The services that both forms of the edge share. */
export interface Edge {
  readonly flows: Flows;
  readonly mailbox: Mailbox;
  readonly ids: SessionIds;
  readonly terminated: TerminatedSessions;
  /** Turns a failure that is not the client's (of the store, or behind the edge) into an error response. */
  readonly fault: Fault;
  readonly principalOf: TellPrincipal;
  /** The maximum size of a request body, in bytes. */
  readonly maxBytes: number;
  /** Reports a body that is too large. Returns the error to respond with. */
  tooLarge(): object;
  readonly tellCaller: TellCaller | undefined;
  /** Whether clients of this protocol version resume a stream that has ended by themselves. */
  resumes(version: string | undefined): boolean;
}

/** An HTTP request as both forms of the edge see it. */
export interface Inbound {
  readonly method: string;
  header(name: string): string | undefined;
  /** The body: unparsed text, or a value that was parsed before it reached the edge. */
  readonly body: { readonly text: string } | { readonly parsed: unknown } | undefined;
  /** The body as received, parsed. A route with a different body replaces it. */
  received?: unknown;
  readonly principal: Principal | undefined;
  /** The remote address, if it is known. */
  readonly address?: string | undefined;
  /** Returns the URL of the request without its query. */
  page(): string;
}

/** What the edge does with a request. */
export type Route =
  /**
   * The SDK handles the request, with what the edge knows about it. `sessionId` is for the response, if the SDK issues none.
   */
  | {
      readonly do: 'serve';
      readonly body: unknown;
      readonly edgeContext: EdgeContext;
      readonly sessionId?: string;
    }
  /** Like `serve`, but the handler may ask a question in place of the answer. */
  | { readonly do: 'call'; readonly body: unknown; readonly edgeContext: EdgeContext }
  /** The answer to a question that was sent by id. The SDK handles the call again, and the client fetches the outcome. */
  | {
      readonly do: 'retry';
      readonly body: Request;
      readonly edgeContext: EdgeContext;
      readonly answered: Answered;
    }
  /** A client fetches the outcome of its answer. */
  | { readonly do: 'fetch'; readonly event: string }
  /** The edge responds by itself. */
  | { readonly do: 'reply'; readonly status: number; readonly error?: object };

const SESSION_HEADER = 'mcp-session-id';

const ONE_ANSWER = {
  code: -32600,
  message: 'Invalid Request: one answer per POST, and nothing else with it',
};

/** Decides what to do with a request. Returns a promise only if it must wait, since this runs for every call. */
export function routeOf(inbound: Inbound, edge: Edge): Route | Promise<Route> {
  const { page, address } = inbound;
  const { context: owner } = edge.flows;
  const known: EdgeContext = address === undefined ? { owner, page } : { owner, page, address };
  const id = inbound.header(SESSION_HEADER);
  if (id === undefined) return routeWithin(known, inbound, edge);
  const session = sessionOf(id, inbound, edge);
  if (!session) return reply(404, NOT_FOUND);
  const within = { ...known, ...session };
  if (!('transportSession' in session)) return routeWithin(within, inbound, edge);
  const isTerminated = edge.terminated.has(session.transportSession);
  return isTerminated || inbound.method === 'DELETE'
    ? routeUnlessTerminated(isTerminated, session.transportSession, within, inbound, edge)
    : routeWithin(within, inbound, edge);
}

async function routeUnlessTerminated(
  isTerminated: Promise<boolean> | undefined,
  transportSession: string,
  within: EdgeContext,
  inbound: Inbound,
  edge: Edge,
): Promise<Route> {
  if (await isTerminated) return reply(404, NOT_FOUND);
  if (inbound.method !== 'DELETE') return routeWithin(within, inbound, edge);
  const { principal, header, address } = inbound;
  // The caller is identified by address or by the author's function, since each id is another transport session.
  const caller = callerOf({ principal, header, address, transportSession: undefined }, edge.tellCaller);
  return reply((await edge.terminated.add(transportSession, principal, caller)) ? 200 : 405);
}

function routeWithin(edgeContext: EdgeContext, inbound: Inbound, edge: Edge): Route | Promise<Route> {
  if (inbound.method === 'GET') {
    edge.mailbox.sawGet = true;
    const event = inbound.header('last-event-id');
    if (event !== undefined && isSealed(event)) return { do: 'fetch', event };
  }
  const serve = (body: unknown): Route => ({ do: 'serve', body, edgeContext });
  if (!inbound.body) return serve(undefined);
  let body: unknown;
  try {
    if ('text' in inbound.body) {
      inbound.received = JSON.parse(inbound.body.text);
      body = parseLowered(inbound.body.text, inbound.received);
    } else {
      inbound.received = inbound.body.parsed;
      body = lowerObject(inbound.received);
    }
  } catch {
    // Whatever is behind the edge reports the error by itself, and gets the body as received.
    return serve(undefined);
  }
  if (Array.isArray(body)) {
    // The outcome of an answer is sent in the response to its own POST, or fetched later. There is no place for two.
    if (body.length > 1 && body.some((each) => isAnswerIn(each, edge.flows))) return reply(400, ONE_ANSWER);
    if (body.length === 1) [body] = body as unknown[];
  }
  const { foreignSession, transportSession } = edgeContext;
  if (foreignSession && (names(body, foreignSession.id) || isStatelessNotification(body, inbound)))
    foreignSession.check(true);
  if (isRequest(body)) return routeRequest(body, edgeContext, inbound, edge);
  if (isResponse(body)) return routeAnswer(body, edgeContext, inbound, edge);
  const isMessage = isNotification(body) || (Array.isArray(body) && body.some(isAnyMessage));
  if (!isMessage) return serve('text' in inbound.body ? undefined : body);
  if (transportSession === undefined) return serve(body);
  return cancelQuestions(body, transportSession, edge).then(() => serve(body));
}

function isAnyMessage(value: unknown): boolean {
  return isRequest(value) || isNotification(value) || isResponse(value);
}

/** Whether a message is a notification outside of any transport session. Unlike a request, it need not name its version. */
function isStatelessNotification(body: unknown, { header }: Inbound): boolean {
  return isNotification(body) && codecOf(body, header('mcp-protocol-version')).isStateless;
}

/** Whether a message names this data-layer session, whose id may also be in the transport's session header. */
function names(body: unknown, id: string): boolean {
  return (Array.isArray(body) ? body : [body]).some((each) => {
    if (!isRequest(each) && !isNotification(each)) return false;
    const target = readTargetParams(each.params);
    return 'session' in target && target.session.sessionId === id;
  });
}

function isAnswerIn(body: unknown, flows: Flows): boolean {
  if (!isResponse(body)) return false;
  const { message, top } = takeTop(body);
  return isResponse(message) && flows.isAnswer(message, top);
}

/**
 * Withdraws the questions of cancelled calls. The SDK does not know calls that another instance or an earlier request handled.
 */
async function cancelQuestions(
  body: unknown,
  transportSession: string,
  { mailbox, flows }: Edge,
): Promise<void> {
  try {
    for (const each of Array.isArray(body) ? body : [body])
      if (isNotification(each) && each.method === 'notifications/cancelled')
        await mailbox.cancel(transportSession, each.params?.['requestId']);
  } catch (error) {
    // A notification has no response, and any other message in the body is still handled.
    flows.context.warnOnce('not-taken-back', {
      what: `The question of a cancelled call could not be withdrawn: ${messageOf(error)}`,
      next: 'Check the store. Until it answers, such questions stay open.',
    });
  }
}

function routeRequest(body: Request, edgeContext: EdgeContext, inbound: Inbound, { ids }: Edge): Route {
  const codec = codecOf(body);
  // Requests without transport sessions are self-contained.
  if (codec.isStateless && edgeContext.transportSession === undefined) {
    const { owner, page, address } = edgeContext;
    const own = { owner, ...(page && { page }), ...(address !== undefined && { address }) };
    return { do: 'serve', body, edgeContext: own };
  }
  if (body.method === 'initialize' && !codec.isStateless) {
    const sessionId = ids.mint(body, inbound.principal);
    if (sessionId === undefined) return { do: 'serve', body, edgeContext };
    // State that is set during `initialize` belongs to the session that it begins.
    const { transportSession } = ids.open(sessionId, inbound.principal);
    return { do: 'serve', body, edgeContext: { ...edgeContext, transportSession }, sessionId };
  }
  const mayAsk = !codec.asksByResult && INPUT_METHODS.includes(body.method);
  return { do: mayAsk ? 'call' : 'serve', body, edgeContext };
}

/** Handles a response: the answer to one of our questions, on any instance, or one that the SDK waits for. */
async function routeAnswer(
  body: Message,
  known: EdgeContext,
  inbound: Inbound,
  { flows, mailbox }: Pick<Edge, 'flows' | 'mailbox'>,
): Promise<Route> {
  const { message, top } = takeTop(body);
  // Without any session, the answer belongs to no question's session.
  const session = known.transportSession ?? known.foreignSession?.id ?? '';
  const reading = isResponse(message) ? flows.readAnswer(message, top, session) : undefined;
  if (!reading || !isResponse(message)) return { do: 'serve', body, edgeContext: known };
  try {
    const answered = await reading;
    const request = requestIn(answered.continuation);
    const byId = typeof message.id === 'string' && flows.store.codec.recognizes(message.id);
    // Auth may be verified behind the edge and is then compared there. The outcome of an answer by id is fetched here.
    const isOpen = inbound.principal === undefined && !byId;
    if (!request || !(isOpen || isOf(answered.continuation, inbound.principal))) {
      if (!inbound.principal) warnOfNobody(flows.context);
      throw new SealError('wrong-subject');
    }
    if (byId && (await mailbox.isCancelled(answered.continuation))) throw new SealError('replayed');
    if (byId && (await mailbox.isElsewhere(answered.continuation))) return reply(400, ELSEWHERE);
    // The answer itself proves what it is about.
    known.foreignSession?.check(true);
    const peer = known.peer ?? peerIn(answered.continuation);
    const edgeContext: EdgeContext = { ...known, ...(peer && { peer }), answered };
    return byId
      ? { do: 'retry', body: request, edgeContext, answered }
      : { do: 'call', body: request, edgeContext };
  } catch (error) {
    if (isFault(error)) throw error;
    flows.refused('the answer of a round', error);
    return reply(400, REFUSED);
  }
}

function warnOfNobody({ warnOnce }: ServerContext): void {
  warnOnce('auth-behind-edge', {
    what: 'The answer of a client was refused: its call has a principal, and nobody was known at valise.http().',
    next: 'Verify auth before valise.http() sees a request, and pass it as request.auth or authInfo; or give createValise the option principal.',
  });
}

/** Returns what a session id proves, or undefined if it is not genuine. An id that is not ours proves nothing yet. */
function sessionOf(
  id: string,
  { principal }: Inbound,
  { flows: { context }, ids }: Edge,
): SealedSession | { readonly foreignSession: ForeignSession } | undefined {
  if (!isSealed(id)) {
    const foreignSession = new ForeignSession(id, context.events);
    if (ids.hasForeign) foreignSession.check(true);
    return { foreignSession };
  }
  try {
    return ids.open(id, principal);
  } catch (error) {
    if (isUnknownKey(error)) throw error;
    context.events.emit('rejected', {
      family: 'sessions',
      what: 'a transport session',
      reason: 'not genuine',
    });
    return undefined;
  }
}

/** Whether a text looks like a seal. Ids of the SDKs never do. */
function isSealed(text: string): boolean {
  return text.startsWith('v1.') && text[11] === '.';
}

function reply(status: number, error?: object): Route {
  return { do: 'reply', status, ...(error && { error }) };
}

/** Returns the body of an error response that the edge gives by itself. */
export function errorBody(error: object): string {
  return JSON.stringify({ jsonrpc: '2.0', id: null, error });
}
