import { type Middleware, NO_RESPONSE } from '../core/compose.ts';
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
import type { EdgeContext } from './edge-context.ts';
import type { Peer } from './peer.ts';
import type { Principal } from './principal.ts';
import type { Caller } from './quota.ts';

/** One step around a request to the server. */
export type ServerMiddleware = Middleware<Exchange, Response>;

/** An answer that a middleware gives in the handler's place. */
export type Reply = { readonly result: Result } | { readonly error: RpcError };

/** A server's transport. */
export interface ServerLink extends Link {
  /** Aborted when the transport closes. */
  readonly closed: AbortSignal;
}

/** What all exchanges on one link share. */
export interface Stage {
  /** The Valise that the link is of. */
  readonly owner: object;
  readonly link: ServerLink;
  /** Whether the server has a handler for a method. */
  readonly handles: (method: string) => boolean;
  /** The `_meta` in the config of what a request is about. */
  readonly config: (request: Request) => Meta | undefined;
  /** Tells one caller from another, where the author does. */
  readonly tellCaller: TellCaller | undefined;
}

/** What an exchange is made from. */
export interface ExchangeFacts {
  readonly request: Request;
  readonly top: Top | undefined;
  readonly extra: unknown;
  readonly edgeContext: EdgeContext | undefined;
  readonly peer: Peer;
  readonly principal: Principal | undefined;
  readonly transportSession: string | undefined;
}

/** Sends the questions of a call: as the response that is returned, or in another way if there is none. */
export type SendRound = (answer: Response) => Promise<Response | undefined>;

/** How many errors of one request are looked for in its response: a handler may catch any number. */
const MAX_ERRORS = 32;

/** A request from when it came until its response is sent. Handlers find it through {@link currentExchange}. */
export class Exchange {
  /** As it came, without top-level members. A middleware may replace it before `next()`. */
  request: Request;
  readonly era: Era;
  /** The names in which the client is answered: those of its request, else those that it announced, else its era's. */
  readonly spelling: Spelling;
  /** Top-level members that came with it, as text. */
  readonly top: Top | undefined;
  /** What the transport said about the request: HTTP headers, verified auth, and so on. */
  readonly extra: unknown;
  /** What our HTTP edge knows of it, where it came through that. */
  readonly edgeContext: EdgeContext | undefined;
  readonly link: ServerLink;
  /** What is known about the client. */
  readonly peer: Peer;
  /** Who asks, where auth has been verified. */
  readonly principal: Principal | undefined;
  /** The id of the transport's own session, where it has one. */
  readonly transportSession: string | undefined;
  /** What middlewares keep with the exchange, each in a `Slot` of its own. */
  kept: unknown[] | undefined;
  /** How often the handler has been given the request. */
  runs = 0;
  /** True once the handler has answered: what it does later cannot go with the response. */
  isAnswered = false;
  /** What the handler asks in place of an answer: whatever the SDK makes of the call is then replaced by it. */
  round: SendRound | undefined;
  /** Errors that a handler may let out and the client must not read as they are; see `advice.ts`. */
  errors: Error[] | undefined;
  readonly #stage: Stage;
  #abort: AbortController | undefined;
  #reason: string | undefined;
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
  }

  /** The Valise that it is of: what others know nothing of. */
  get owner(): object {
    return this.#stage.owner;
  }

  /** Whose share of a limit it counts toward. */
  get caller(): Caller {
    const { principal, transportSession, extra } = this;
    const header = (name: string) => headerOf(extra, name);
    const address = this.edgeContext?.address;
    return callerOf({ principal, transportSession, address, header }, this.#stage.tellCaller);
  }

  get method(): string {
    return this.request.method;
  }

  /** True if the server has a handler for the request. */
  get isHandled(): boolean {
    return this.#stage.handles(this.request.method);
  }

  /** The `_meta` that the author gave in the config of the tool, prompt or resource that a request is about. */
  configOf(request: Request): Meta | undefined {
    return this.#stage.config(request);
  }

  /** Aborted once nobody waits for the response: with `cancelled` or `closed` as the reason. */
  get signal(): AbortSignal {
    this.#abort ??= new AbortController();
    if (this.#reason !== undefined) this.#abort.abort(this.#reason);
    return this.#abort.signal;
  }

  /** Nobody waits for the response any longer. */
  cancel(reason: 'cancelled' | 'closed'): void {
    if (this.#reason !== undefined) return;
    this.#reason = reason;
    this.#abort?.abort(reason);
    this.#fail?.(NO_RESPONSE);
  }

  /** Has `deliver` give the request to the SDK, and waits for what it answers. */
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
   * The SDK's answer; false if none is waited for. One that comes at once is a refusal, before any handler has run: its HTTP
   * status depends on its being sent at once.
   */
  answered(response: Response): boolean {
    if (this.#isDelivering) this.#fail?.(NO_RESPONSE);
    if (!this.#settle || this.#isDelivering) return false;
    this.isAnswered = true;
    this.#settle(response);
    this.#settle = undefined;
    return true;
  }

  /** Adds to {@link errors}. */
  note(error: unknown): void {
    if (!(error instanceof Error)) return;
    this.errors ??= [];
    if (this.errors.length < MAX_ERRORS && !this.errors.includes(error)) this.errors.push(error);
  }

  /** The response that says `reply`. */
  respond(reply: Reply): Response {
    const { id } = this.request;
    if ('error' in reply) return { jsonrpc: '2.0', id, error: reply.error };
    return { jsonrpc: '2.0', id, result: complete(this.era, reply.result) };
  }
}

/** A response with more in its result's `_meta`. A JSON-RPC error carries none. */
export function addMeta(response: Response, fragment: Meta | undefined): Response {
  if (!fragment || !('result' in response)) return response;
  const { result } = response;
  return { ...response, result: { ...result, _meta: { ...result._meta, ...fragment } } };
}

const current = new Course<Exchange>();

/** The exchange whose handler is running, at any depth of calls: that of a Valise, or the one on a link. */
export function currentExchange(of: object): Exchange | undefined {
  const exchange = current.current;
  return exchange && (exchange.owner === of || exchange.link === of) ? exchange : undefined;
}

/** The exchange whose handler is running, of any Valise. */
export function runningExchange(): Exchange | undefined {
  return current.current;
}
