import type { IncomingMessage, ServerResponse } from 'node:http';
import { isObject } from '../../core/json.ts';
import { checkArgument, FUNCTION, type Taken } from '../../core/options.ts';
import { resumesStreams } from '../../wire/codec.ts';
import { faultOn } from '../fault.ts';
import type { Flows } from '../flows/flows.ts';
import { MAX_BODY, tooLarge } from './body.ts';
import { type FetchFunction, fetchEdge } from './fetch.ts';
import { Mailbox } from './mailbox.ts';
import { type NodeFunction, nodeEdge } from './node.ts';
import type { Edge } from './route.ts';
import { type EndStandIn, SessionIds, TerminatedSessions } from './transport-session.ts';

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
  flows: Flows,
  { principalOf, tellCaller }: Pick<Edge, 'principalOf' | 'tellCaller'>,
  endStandIn: EndStandIn,
  maxBytes = MAX_BODY,
): Http {
  const edge: Edge = {
    flows,
    mailbox: new Mailbox(flows),
    ids: new SessionIds(flows.context.sealer),
    terminated: new TerminatedSessions(flows.context, endStandIn),
    fault: faultOn(flows.context.events),
    principalOf,
    maxBytes,
    tooLarge() {
      flows.context.events.emit('message-too-large', { what: 'body', maxBytes });
      return tooLarge(maxBytes);
    },
    tellCaller,
    resumes: resumesStreams,
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
