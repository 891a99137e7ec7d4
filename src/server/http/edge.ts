import type { IncomingMessage, ServerResponse } from 'node:http';
import { isObject } from '../../json.ts';
import { checkArgument, FUNCTION, type Taken } from '../../options.ts';
import type { TellCaller } from '../caller.ts';
import { type Fault, faultOn } from '../fault.ts';
import type { Rounds } from '../flow/rounds.ts';
import type { TellPrincipal } from '../principal.ts';
import { MAX_BODY, tooLarge } from './body.ts';
import { Desk } from './desk.ts';
import { EndedSessions, type EndStandIn } from './ended.ts';
import { type FetchFunction, type FetchOptions, fetchEdge } from './fetch.ts';
import { type NodeFunction, nodeEdge } from './node.ts';
import { SessionIds } from './session-id.ts';

/** What both forms of the edge share. */
export interface Edge {
  readonly rounds: Rounds;
  readonly desk: Desk;
  readonly ids: SessionIds;
  readonly ended: EndedSessions;
  /** For a failure that is not the client's: of the store, or of what is behind the edge. */
  readonly fault: Fault;
  readonly principalOf: TellPrincipal;
  /** How large the body of a request may be. */
  readonly maxBytes: number;
  /** Tells that a body was larger; the error to answer with. */
  tooLarge(): object;
  readonly tellCaller: TellCaller | undefined;
  /** True where a client of this protocol version comes back by itself for the rest of a stream that has ended. */
  resumes(version: string | null | string[] | undefined): boolean;
}

/** A handler with a web-standard `fetch`, such as `createMcpHandler` makes. */
export interface FetchHandler {
  fetch(request: Request, options?: FetchOptions): Response | Promise<Response>;
}

/** What the edge makes of a plain function: it serves web-standard requests and Node's. */
export interface EdgeFunction {
  (request: Request, options?: FetchOptions): Promise<Response>;
  (request: IncomingMessage, response: ServerResponse, body?: unknown): Promise<void>;
}

/** Valise's own HTTP edge around a handler of either SDK major. */
export interface Http {
  <Handler extends FetchHandler>(handler: Handler): Handler;
  (handler: NodeFunction | FetchFunction): EdgeFunction;
}

export function createHttp(
  rounds: Rounds,
  { principalOf, tellCaller }: Pick<Edge, 'principalOf' | 'tellCaller'>,
  endStandIn: EndStandIn,
  maxBytes = MAX_BODY,
): Http {
  const edge: Edge = {
    rounds,
    desk: new Desk(rounds),
    ids: new SessionIds(rounds.context.sealer),
    ended: new EndedSessions(rounds.context, endStandIn),
    fault: faultOn(rounds.context.events),
    principalOf,
    maxBytes,
    tooLarge() {
      rounds.context.events.emit('message-too-large', { what: 'body', maxBytes });
      return tooLarge(maxBytes);
    },
    tellCaller,
    resumes: (version) => typeof version === 'string' && version >= '2025-11-25',
  };
  return ((handler: FetchHandler | NodeFunction | FetchFunction) => {
    if (isObject(handler) && typeof handler.fetch === 'function') {
      const inner = handler as unknown as FetchHandler;
      return { ...handler, fetch: fetchEdge(edge, (request, options) => inner.fetch(request, options)) };
    }
    checkArgument('valise.http()', handler, HANDLER);
    const overFetch = fetchEdge(edge, handler as FetchFunction);
    const overNode = nodeEdge(edge, handler as NodeFunction);
    return (request: Request | IncomingMessage, second: never, third: never) =>
      isWebRequest(request) ? overFetch(request, second) : overNode(request, second, third);
  }) as Http;
}

/** What is asked of a handler that has no `fetch`. */
const HANDLER: Taken = [
  'a handler: a function, or an object with fetch, such as createMcpHandler makes',
  FUNCTION[1],
];

function isWebRequest(request: Request | IncomingMessage): request is Request {
  return typeof (request as Request).headers.get === 'function';
}
