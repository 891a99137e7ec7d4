import { type Middleware, NO_RESPONSE } from '../core/compose.ts';
import type { AbortReason, Exchange as AnyExchange } from '../core/exchange.ts';
import { Course } from '../link/course.ts';
import type { Link } from '../link/instrument.ts';
import type { Top } from '../link/top.ts';
import {
  type Era,
  eraOf,
  type Meta,
  type Request,
  type Response,
  type Result,
  type RpcError,
} from '../wire/index.ts';
import { complete } from '../wire/session-methods.ts';
import { answerSpelling, type Spelling } from '../wire/spelling.ts';
import { callerOf, headerOf, type TellCaller } from './caller.ts';
import { type Carrier, NO_CARRIER } from './carriers/types.ts';
import type { ToolFacts } from './config.ts';
import type { EdgeContext } from './edge-context.ts';
import type { Peer } from './peer.ts';
import type { Principal } from './principal.ts';
import type { Caller } from './quota.ts';
import type { Observed } from './telemetry.ts';

/** A middleware around a request to the server. */
export type ServerMiddleware = Middleware<Exchange, Response>;

/** A response that a middleware gives in place of the handler. */
export type Reply = { readonly result: Result } | { readonly error: RpcError };

/** The link to a server's transport. */
export interface ServerLink extends Link {
  /** Aborted when the transport closes. */
  readonly closed: AbortSignal;
}

/** The services that all exchanges on one link share. */
export interface Stage {
  /** The Valise that the link belongs to. */
  readonly owner: object;
  readonly link: ServerLink;
  /** Returns the `_meta` in the config of the tool, prompt or resource that a request is about. */
  readonly config: (request: Request) => Meta | undefined;
  /** Whether the config of any tool has this key in its `_meta`. */
  readonly hasToolWith: (key: string) => boolean;
  /** Returns the facts about a registered tool. */
  readonly tool: (name: string) => ToolFacts | undefined;
  /** Tells callers apart, if the author configured it. */
  readonly tellCaller: TellCaller | undefined;
}

/** The values that an exchange is created from. */
export interface ExchangeFacts {
  readonly request: Request;
  readonly top: Top | undefined;
  readonly extra: unknown;
  readonly edgeContext: EdgeContext | undefined;
  readonly peer: Peer;
  readonly principal: Principal | undefined;
  readonly transportSession: string | undefined;
  readonly isHandled: boolean;
}

/** Sends the questions of a call. Resolves to the response that carries them, or to undefined if they were sent another way. */
export type SendRound = (answer: Response) => Promise<Response | undefined>;

/** The maximum number of errors of one request that are looked for in its response. A handler may catch any number. */
const MAX_ERRORS = 32;

/** A request from its arrival until its response is sent. Handlers find it through {@link currentExchange}. */
export class Exchange implements AnyExchange<Request> {
  readonly direction = 'in';
  /** The request as it arrived, without top-level members. A middleware may replace it before `next()`. */
  request: Request;
  readonly era: Era;
  /** The names used in the response: those of the request, else those that the client announced, else those of its era. */
  readonly spelling: Spelling;
  /** Top-level members of the message, as text. */
  readonly top: Top | undefined;
  /** The transport's data about the request: HTTP headers, verified auth, and so on. */
  readonly extra: unknown;
  /** The HTTP edge's data about the request, if it came through the edge. */
  readonly edgeContext: EdgeContext | undefined;
  readonly link: ServerLink;
  /** The client's capabilities and protocol version, as far as they are known. */
  readonly peer: Peer;
  /** The principal, if auth has been verified. */
  readonly principal: Principal | undefined;
  /** The id of the transport's own session, if it has one. */
  readonly transportSession: string | undefined;
  /** Whether the server has a handler for the request. */
  readonly isHandled: boolean;
  /** What carries the state of the request to the next call. */
  carrier: Carrier = NO_CARRIER;
  /** The values that middlewares store with the exchange, each in its own `Slot`. */
  kept: unknown[] | undefined;
  /** The number of times that the request has been given to the handler. */
  runs = 0;
  /** Whether the handler has answered. What it does later cannot be part of the response. */
  isAnswered = false;
  /** Sends the handler's questions in place of an answer. Its result replaces whatever the SDK makes of the call. */
  round: SendRound | undefined;
  /** What telemetry adds to the exchange. Undefined without telemetry. */
  observed: Observed | undefined;
  /** Errors that a handler may let through and that the client must not read as they are; see `advice.ts`. */
  errors: Error[] | undefined;
  readonly #stage: Stage;
  #abort: AbortController | undefined;
  #reason: AbortReason | undefined;
  #isDelivering = false;
  #settle: ((response: Response) => void) | undefined;
  #fail: ((error: unknown) => void) | undefined;

  constructor(stage: Stage, facts: ExchangeFacts) {
    this.#stage = stage;
    this.link = stage.link;
    this.request = facts.request;
    this.era = eraOf(facts.request);
    this.spelling = answerSpelling(facts.request, this.era, facts.peer.capabilities);
    this.top = facts.top;
    this.extra = facts.extra;
    this.edgeContext = facts.edgeContext;
    this.peer = facts.peer;
    this.principal = facts.principal;
    this.transportSession = facts.transportSession;
    this.isHandled = facts.isHandled;
  }

  /** The Valise that the exchange belongs to. Other Valises ignore it. */
  get owner(): object {
    return this.#stage.owner;
  }

  /** The caller whose share of a limit the request counts toward. */
  get caller(): Caller {
    const { principal, transportSession, extra } = this;
    const header = (name: string) => headerOf(extra, name);
    const address = this.edgeContext?.address;
    return callerOf({ principal, transportSession, address, header }, this.#stage.tellCaller);
  }

  get method(): string {
    return this.request.method;
  }

  /** Returns the `_meta` that the author gave in the config of the tool, prompt or resource that a request is about. */
  configOf(request: Request): Meta | undefined {
    return this.#stage.config(request);
  }

  /** Whether the author gave this key in the `_meta` of any tool's config. */
  hasToolWith(key: string): boolean {
    return this.#stage.hasToolWith(key);
  }

  /** Returns the facts about a tool of the server. */
  toolOf(name: string): ToolFacts | undefined {
    return this.#stage.tool(name);
  }

  /** Aborted once nobody waits for the response. The reason is `cancelled` or `closed`. */
  get signal(): AbortSignal {
    this.#abort ??= new AbortController();
    if (this.#reason !== undefined) this.#abort.abort(this.#reason);
    return this.#abort.signal;
  }

  /** Records that nobody waits for the response. */
  cancel(reason: AbortReason): void {
    if (this.#reason !== undefined) return;
    this.#reason = reason;
    this.#abort?.abort(reason);
    this.#fail?.(NO_RESPONSE);
  }

  /** Calls `deliver` to give the request to the SDK, and resolves to the SDK's response. */
  handle(deliver: () => void): Promise<Response> {
    if (this.#reason !== undefined) return Promise.reject(NO_RESPONSE);
    this.runs++;
    this.isAnswered = false;
    this.round = undefined;
    return new Promise<Response>((resolve, reject) => {
      this.#settle = resolve;
      this.#fail = reject;
      this.#isDelivering = true;
      current.run(this, deliver);
      this.#isDelivering = false;
    });
  }

  /**
   * Takes the SDK's response. Returns false if none is awaited.
   *
   * A response that comes synchronously is a refusal, before any handler has run. It must be sent immediately, since its HTTP
   * status depends on that.
   */
  answered(response: Response): boolean {
    if (this.#isDelivering) this.#fail?.(NO_RESPONSE);
    if (!this.#settle || this.#isDelivering) return false;
    this.isAnswered = true;
    this.#settle(response);
    this.#settle = undefined;
    return true;
  }

  /** Adds an error to {@link errors}. */
  note(error: unknown): void {
    if (!(error instanceof Error)) return;
    this.errors ??= [];
    if (this.errors.length < MAX_ERRORS && !this.errors.includes(error)) this.errors.push(error);
  }

  /** Builds the response for `reply`. */
  respond(reply: Reply): Response {
    const { id } = this.request;
    if ('error' in reply) return { jsonrpc: '2.0', id, error: reply.error };
    return { jsonrpc: '2.0', id, result: complete(this.era, reply.result) };
  }
}

/**
 * Returns the response with `fragment` merged into its result's `_meta`. A JSON-RPC error has no `_meta` and stays as it is.
 */
export function addMeta(response: Response, fragment: Meta | undefined): Response {
  if (!fragment || !('result' in response)) return response;
  const { result } = response;
  return { ...response, result: { ...result, _meta: { ...result._meta, ...fragment } } };
}

const current = new Course<Exchange>();

/** Returns the exchange whose handler is running, at any depth of calls, if it belongs to the given Valise or link. */
export function currentExchange(of: object): Exchange | undefined {
  const exchange = current.current;
  return exchange && (exchange.owner === of || exchange.link === of) ? exchange : undefined;
}

/** Returns the exchange whose handler is running, of any Valise. */
export function runningExchange(): Exchange | undefined {
  return current.current;
}
