import { AsyncVariable } from '../core/async-context.ts';
import { type Middleware, NO_RESPONSE } from '../core/compose.ts';
import { IncomingExchange, OutgoingExchange } from '../core/exchange.ts';
import type { TransportLike } from '../core/instrument.ts';
import type { Message } from '../core/message.ts';
import type { Top } from '../edge/drafts.ts';
import { type Codec, codecOf } from '../wire/codec.ts';
import type { Era, Id, Meta, Request, Response, Result, RpcError } from '../wire/index.ts';
import { answerSpelling, type Spelling } from '../wire/spelling.ts';
import { callerOf, headerOf, type TellCaller } from './caller.ts';
import { type Carrier, NO_CARRIER } from './carriers/types.ts';
import type { EdgeContext } from './edge-context.ts';
import type { Peer } from './peer.ts';
import type { Principal } from './principal.ts';
import type { Caller } from './quota.ts';
import type { ToolFacts } from './sdk-server.ts';

/** A middleware around a request to the server. */
export type ServerMiddleware = Middleware<Exchange, Response>;

/** A response that a middleware gives in place of the handler. */
export type Reply = { readonly result: Result } | { readonly error: RpcError };

/** The link of a server to its transport, as far as an exchange needs it. */
export interface ServerLink {
  /** The Valise that the link belongs to. */
  readonly owner: object;
  readonly transport: TransportLike;
  /** Aborted when the transport closes. */
  readonly closed: AbortSignal;
  /** Passes a message to the SDK as if it had arrived. */
  deliver(message: Message, extra?: unknown): void;
  /** Sends a message to the client without the middlewares. */
  send(message: Message, options?: unknown): Promise<void>;
  /** Returns the `_meta` in the config of the tool, prompt or resource that a request is about. */
  config(request: Request): Meta | undefined;
  /** Whether the config of any tool has this key in its `_meta`. */
  hasToolWith(key: string): boolean;
  /** Returns the facts about a registered tool. */
  tool(name: string): ToolFacts | undefined;
  /** Tells callers apart, if the author configured it. */
  readonly tellCaller: TellCaller | undefined;
}

/** What telemetry adds to an exchange, and learns about it on the way. */
export interface Observed {
  /** The trace context of the request, which the next round of a flow links to. */
  readonly traceparent: string | undefined;
  /** The round that the request has asked, if any. */
  asked?: { readonly flow: string; readonly round: number; readonly carrier: string };
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
export class Exchange extends IncomingExchange {
  /** What the protocol revision of the request does differently. */
  readonly codec: Codec;
  /** The names used in the response: those of the request, else those that the client announced, else those of its era. */
  readonly spelling: Spelling;
  /** Top-level members of the message, as text. */
  readonly top: Top | undefined;
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
  /** Whether the handler has answered. Later changes cannot be part of the response. */
  isAnswered = false;
  /** Sends the handler's questions in place of an answer. Its result replaces whatever the SDK makes of the call. */
  round: SendRound | undefined;
  /** What telemetry adds to the exchange. Undefined without telemetry. */
  observed: Observed | undefined;
  /** Errors that a handler may let through and that the client must not read as they are; see `advice.ts`. */
  errors: Error[] | undefined;
  #isDelivering = false;

  constructor(link: ServerLink, facts: ExchangeFacts) {
    super(facts.request, facts.extra);
    this.link = link;
    this.codec = codecOf(facts.request);
    this.spelling = answerSpelling(facts.request, this.codec.era, facts.peer.capabilities);
    this.top = facts.top;
    this.edgeContext = facts.edgeContext;
    this.peer = facts.peer;
    this.principal = facts.principal;
    this.transportSession = facts.transportSession;
    this.isHandled = facts.isHandled;
  }

  get era(): Era {
    return this.codec.era;
  }

  /** The Valise that the exchange belongs to. Other Valises ignore it. */
  get owner(): object {
    return this.link.owner;
  }

  /** The caller whose share of a limit the request counts toward. */
  get caller(): Caller {
    const { principal, transportSession, extra } = this;
    const header = (name: string) => headerOf(extra, name);
    const address = this.edgeContext?.address;
    return callerOf({ principal, transportSession, address, header }, this.link.tellCaller);
  }

  /** Returns the `_meta` that the author gave in the config of the tool, prompt or resource that a request is about. */
  configOf(request: Request): Meta | undefined {
    return this.link.config(request);
  }

  /** Whether the author gave this key in the `_meta` of any tool's config. */
  hasToolWith(key: string): boolean {
    return this.link.hasToolWith(key);
  }

  /** Returns the facts about a tool of the server. */
  toolOf(name: string): ToolFacts | undefined {
    return this.link.tool(name);
  }

  override handle(deliver: () => void): Promise<Response> {
    this.runs++;
    this.isAnswered = false;
    this.round = undefined;
    return super.handle(() => {
      this.#isDelivering = true;
      current.run(this, deliver);
      this.#isDelivering = false;
    });
  }

  /**
   * Takes the SDK's response.
   *
   * A response that comes synchronously is a refusal, before any handler has run. It must be sent immediately, since its HTTP
   * status depends on that.
   */
  override answered(response: Response): boolean {
    if (this.#isDelivering) this.fail(NO_RESPONSE);
    else if (this.settle(response)) {
      this.isAnswered = true;
      return true;
    }
    this.edgeContext?.sent?.(response);
    return false;
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
    return { jsonrpc: '2.0', id, result: this.codec.complete(reply.result) };
  }
}

/** A request of the server to the client. Its id on the wire is unique, since another instance may use the same numbers. */
export class ServerQuestion extends OutgoingExchange {
  readonly wireId: Id;

  constructor(request: Request, link: string) {
    super(request);
    this.wireId = `${link}.${request.id}`;
  }

  outgoing(): Message {
    return { ...this.request, id: this.wireId };
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

const current = new AsyncVariable<Exchange>();

/** Returns the exchange whose handler is running, at any depth of calls, if it belongs to the given Valise or link. */
export function currentExchange(of: object): Exchange | undefined {
  const exchange = current.current;
  return exchange && (exchange.owner === of || exchange.link === of) ? exchange : undefined;
}

/** Returns the exchange whose handler is running, of any Valise. */
export function runningExchange(): Exchange | undefined {
  return current.current;
}

let places = 0;

/**
 * A value that a middleware stores with each exchange.
 *
 * It is stored on the exchange itself, because weak maps of short-lived objects burden the garbage collector. Create a slot
 * once per module, not per Valise, since an exchange belongs to only one.
 */
export class Slot<Value> {
  readonly #place = places++;

  get({ kept }: Exchange): Value | undefined {
    return kept?.[this.#place] as Value | undefined;
  }

  set(exchange: Exchange, value: Value | undefined): void {
    if (value === undefined && !exchange.kept) return;
    exchange.kept ??= [];
    exchange.kept[this.#place] = value;
  }
}
