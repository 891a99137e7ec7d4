import type { IncomingMessage, ServerResponse } from 'node:http';
import { isObject } from '../../json.ts';
import { checkArgument, FUNCTION, type Taken } from '../../options.ts';
import type { TellCaller } from '../caller.ts';
import { type Fault, faultOn } from '../fault.ts';
import type { Rounds } from '../flows/rounds.ts';
import type { TellPrincipal } from '../principal.ts';
import { MAX_BODY, tooLarge } from './body.ts';
import { EndedSessions, type EndStandIn } from './ended.ts';
import { type FetchFunction, fetchEdge } from './fetch.ts';
import { type NodeFunction, nodeEdge } from './node.ts';
import { QuestionStreams } from './question-streams.ts';
import { SessionIds } from './session-id.ts';

/** The services that both forms of the edge share. */
export interface Edge {
  readonly rounds: Rounds;
  readonly questionStreams: QuestionStreams;
  readonly ids: SessionIds;
  readonly ended: EndedSessions;
  /** Turns a failure that is not the client's (of the store, or behind the edge) into an error response. */
  readonly fault: Fault;
  readonly principalOf: TellPrincipal;
  /** The maximum size of a request body, in bytes. */
  readonly maxBytes: number;
  /** Reports a body that is too large. Returns the error to respond with. */
  tooLarge(): object;
  readonly tellCaller: TellCaller | undefined;
  /** Whether clients of this protocol version resume a stream that has ended by themselves. */
  resumes(version: string | null | string[] | undefined): boolean;
}

/** A handler with a web-standard `fetch`, such as the one that `createMcpHandler` returns. */
export interface FetchHandler {
  fetch(request: Request, ...rest: unknown[]): Response | Promise<Response>;
}

/**
 * Types the parameters of inline Node functions.
 *
 * The second signature is never called. It prevents this type from matching functions with one parameter, which are therefore
 * treated as web-standard ones.
 */
interface NodeParameters {
  (request: IncomingMessage, response: ServerResponse, body?: unknown): unknown;
  <T>(request: T): unknown;
}

/** A handler of the same kind as the one that was wrapped. */
export type Wrapped<Handler> = Handler extends (
  request: infer R extends Request,
  ...rest: infer Rest
) => Response | Promise<Response>
  ? (request: R, ...rest: Rest) => Promise<Response>
  : Handler extends (request: IncomingMessage, response: ServerResponse, ...rest: never) => unknown
    ? NodeHandler<IncomingMessage, ServerResponse>
    : Handler extends (
          request: infer R extends object,
          response: infer S extends object,
          ...rest: never
        ) => unknown
      ? NodeHandler<
          R extends IncomingMessage ? R : IncomingMessage,
          S extends ServerResponse ? S : ServerResponse
        >
      : never;

type NodeHandler<R, S> = (request: R, response: S, body?: unknown) => Promise<void>;

/** Wraps an HTTP handler: an object with `fetch`, a web-standard function, or a Node function or app. */
export interface Http {
  <Handler extends FetchHandler>(handler: Handler): Handler;
  <Handler extends ((request: Request) => Response | Promise<Response>) | NodeParameters | CallableFunction>(
    handler: Handler,
  ): Wrapped<Handler>;
}

export function createHttp(
  rounds: Rounds,
  { principalOf, tellCaller }: Pick<Edge, 'principalOf' | 'tellCaller'>,
  endStandIn: EndStandIn,
  maxBytes = MAX_BODY,
): Http {
  const edge: Edge = {
    rounds,
    questionStreams: new QuestionStreams(rounds),
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
      return wrapFetch(
        inner,
        fetchEdge(edge, (...args) => inner.fetch(...args)),
      );
    }
    checkArgument('valise.http()', handler, HANDLER);
    const overFetch = fetchEdge(edge, handler as FetchFunction);
    const overNode = nodeEdge(edge, handler as NodeFunction);
    return (request: Request | IncomingMessage, second: never, third: never) =>
      isWebRequest(request) ? overFetch(request, second, third) : overNode(request, second, third);
  }) as Http;
}

/** Returns the handler with another `fetch`. If it is an instance of a class, all other members still act on the original. */
function wrapFetch(handler: FetchHandler, fetch: FetchHandler['fetch']): FetchHandler {
  return Object.getPrototypeOf(handler) === Object.prototype
    ? { ...handler, fetch }
    : new Proxy(handler, { get: (app, name) => (name === 'fetch' ? fetch : boundTo(app, name)) });
}

function boundTo(app: object, name: string | symbol): unknown {
  const value: unknown = Reflect.get(app, name);
  return typeof value === 'function' ? value.bind(app) : value;
}

/** The expected type of a handler that has no `fetch`. */
const HANDLER: Taken = [
  'a handler: a function, or an object with fetch, such as createMcpHandler makes',
  FUNCTION[1],
];

function isWebRequest(request: Request | IncomingMessage): request is Request {
  return typeof (request as Request).headers.get === 'function';
}
