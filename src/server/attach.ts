import { randomBytes } from 'node:crypto';
import { compose, NO_RESPONSE } from '../core/compose.ts';
import { NotificationOrder } from '../core/notification-order.ts';
import { ValiseError } from '../errors.ts';
import type { JsonObject } from '../json.ts';
import { lazy } from '../lazy.ts';
import { tooLargeRequest } from '../link/edge-stdio.ts';
import { claim, type TapEnd } from '../link/tap.ts';
import { StartTap } from '../link/tap-at-start.ts';
import { type Top, takeTop } from '../link/top.ts';
import { stdinOf, type TransportLike } from '../link/transport.ts';
import {
  announceServer,
  type Families,
  type Id,
  INTRODUCTIONS,
  isNotification,
  isRequest,
  type Message,
  type Meta,
  mergeCapabilities,
  type Notification,
  type Request,
  type Response,
} from '../wire/index.ts';
import { withoutAdvice } from './advice.ts';
import type { TellCaller } from './caller.ts';
import { configOf, hasToolWith, type ToolFacts, toolOf } from './config.ts';
import { takeEdgeContext } from './edge-context.ts';
import { currentExchange, Exchange, type ServerLink, type ServerMiddleware, type Stage } from './exchange.ts';
import { type Fault, MAX_UNDER_WAY, tooManyNotifications, tooManyRequests } from './fault.ts';
import { handles } from './handles.ts';
import { isHttp, type Peer, peerOf, STRANGER, withoutIntroduction } from './peer.ts';
import { authInfoOf, type TellPrincipal } from './principal.ts';
import { asRequest, isInRequest } from './request-store.ts';
import type { ServerLike } from './server-like.ts';
import { versionRefusal } from './version-gate.ts';

/** State and callbacks that all links of all servers of one Valise share. */
export interface Attachment {
  readonly owner: object;
  /** The middlewares that requests pass through, outermost first. */
  readonly stack: readonly ServerMiddleware[];
  /** Whether a middleware answers the request itself, although the server has no handler for it. */
  answers(exchange: Exchange): boolean;
  /** Returns the capabilities that the server announces to the client. */
  families(introduction: Exchange): Families;
  /** Returns the notification to send to the client, or undefined to drop it. */
  notifying(
    notification: Notification,
    exchange: Exchange | undefined,
    link: ServerLink,
  ): Notification | undefined;
  /** Adds to a request that the server sends to the client. Undefined if nothing does. */
  readonly asking?: ((request: Request) => Request) | undefined;
  /** Handles a response that nobody in this process waits for. Returns true if it was accepted. */
  answered(response: Response, top: Top | undefined, link: ServerLink, extra: unknown): boolean;
  readonly principalOf: TellPrincipal;
  readonly tellCaller: TellCaller | undefined;
  /** Turns an error in a middleware into a response, since the client must get one in any case. */
  readonly fault: Fault;
}

/** Identifies this process. With a counter it names a link, at no cost for the many links that live for one request. */
const processName = lazy(() => randomBytes(12).toString('base64url'));
let links = 0;

/** Inserts the middlewares between a transport and the server that connects to it. The transport stays the same object. */
export function attach(server: ServerLike, transport: TransportLike, attachment: Attachment): ServerLink {
  if (claim(transport, attachment.owner) === undefined)
    throw new ValiseError('already-connected', 'This transport is attached to this Valise already.', {
      next: 'Attach each transport once, and make a new one for each connection.',
    });
  return new Attached(server, transport, attachment);
}

/** A message with the transport's data about it. */
interface Arrived {
  readonly message: Message;
  readonly extra: unknown;
}

/** One attached transport. A stateless server creates one per request, and methods are cheaper than closures. */
class Attached implements ServerLink, Stage, TapEnd {
  readonly owner: object;
  readonly tellCaller: TellCaller | undefined;
  readonly transport: TransportLike;
  readonly link = this;
  readonly #server: ServerLike;
  readonly #attachment: Attachment;
  readonly #tap: StartTap;
  readonly #send: TransportLike['send'];
  readonly #exchanges = new Map<Id, Exchange>();
  readonly #number = ++links;
  /** Requests that have not reached the SDK yet, which later notifications must not overtake. */
  readonly #order = new NotificationOrder<Arrived>(({ message, extra }) => this.#tap.deliver(message, extra));
  /** The SDK's ids of the server's own requests, keyed by their ids on the wire. */
  #asked: Map<Id, Id> | undefined;
  #name: string | undefined;
  #known: Peer = STRANGER;
  #closing: AbortController | undefined;
  #isClosed = false;

  constructor(server: ServerLike, transport: TransportLike, attachment: Attachment) {
    this.#server = server;
    this.transport = transport;
    this.#attachment = attachment;
    this.owner = attachment.owner;
    this.tellCaller = attachment.tellCaller;
    this.#send = transport.send;
    this.#tap = new StartTap(transport, this);
    transport.send = (message: Message, options?: unknown) => this.#outbound(message, options);
  }

  config(request: Request): Meta | undefined {
    return configOf(this.#server, request);
  }

  hasToolWith(key: string): boolean {
    return hasToolWith(this.#server, key);
  }

  tool(name: string): ToolFacts | undefined {
    return toolOf(this.#server, name);
  }

  deliver(message: Message, extra?: unknown): void {
    this.#tap.deliver(message, extra);
  }

  send(message: Message, options?: unknown): Promise<void> {
    return this.#send.call(this.transport, message, options);
  }

  get closed(): AbortSignal {
    this.#closing ??= new AbortController();
    if (this.#isClosed) this.#closing.abort();
    return this.#closing.signal;
  }

  ended(): void {
    this.#isClosed = true;
    for (const exchange of this.#exchanges.values()) exchange.cancel('closed');
    this.#closing?.abort();
    this.#asked?.clear();
  }

  /** Handles a message from the wire. */
  receive(arrived: Message, extra?: unknown): void {
    const { message, top } = takeTop(arrived);
    if (isRequest(message)) this.#received(message, top, extra);
    else if (this.#isLost(extra)) return;
    else if (isNotification(message)) this.#notified(message, extra);
    else this.#answered(message, top, extra);
  }

  /** Handles a message from the SDK. */
  #outbound(message: Message, options?: unknown): Promise<void> {
    if (!isRequest(message) && !isNotification(message)) return this.#responded(message, options);
    const out = isRequest(message) ? this.#asking(message) : this.#notifying(message);
    if (!out) return Promise.resolve();
    const { relatedRequestId } = (options ?? {}) as { readonly relatedRequestId?: Id };
    if (relatedRequestId !== undefined) this.#exchanges.get(relatedRequestId)?.edgeContext?.sent?.(out);
    return this.send(out, options);
  }

  #received(message: Request, top: Top | undefined, extra: unknown): void {
    const { fault, principalOf } = this.#attachment;
    const refuse = (error: ReturnType<Fault>): void => this.#reply({ jsonrpc: '2.0', id: message.id, error });
    if (this.#exchanges.size >= MAX_UNDER_WAY) {
      refuse(fault(tooManyRequests()));
      return;
    }
    const edgeContext = takeEdgeContext(this.owner, this.#number, extra, message.id);
    const isFirst = message.method === 'initialize';
    const isKnown = isFirst || this.transport.sessionId !== undefined;
    const refused = tooLargeRequest(message) ?? edgeContext?.stray?.judge(isKnown);
    if (refused) {
      refuse(refused);
      return;
    }
    const peer = peerOf(message, edgeContext?.peer ?? this.#known);
    if (isFirst) this.#known = peer;
    const params = withoutIntroduction(message.params);
    let principal: ReturnType<TellPrincipal>;
    try {
      principal = principalOf(
        authInfoOf(extra),
        extra,
        !isHttp(extra) && stdinOf(this.transport) !== undefined,
      );
    } catch (error) {
      refuse(fault(error));
      return;
    }
    const exchange = new Exchange(this, {
      request: params === message.params ? message : { ...message, params },
      top,
      extra,
      edgeContext,
      peer,
      principal,
      transportSession:
        this.transport.sessionId ??
        edgeContext?.transportSession ??
        (isHttp(extra) ? undefined : `link:${this.#nonce}`),
      isHandled: handles(this.#server, message.method),
    });
    const { isHandled } = exchange;
    // The SDK responds immediately that it does not know the method, and the HTTP status depends on that. If two requests share
    // an id, which violates the protocol, the second one bypasses the middlewares. A call that continues from an answer has the id
    // of the call that asked, which may not have ended yet.
    const other = this.#exchanges.get(message.id);
    const isRepeated = other !== undefined && other.round === undefined;
    if ((!isHandled && !this.#attachment.answers(exchange)) || isRepeated) {
      this.#tap.deliver(exchange.request, extra);
      return;
    }
    // A request that never reaches the SDK delays nothing.
    if (isHandled) this.#order.begin(exchange);
    // A message that came through the HTTP edge is already part of a request.
    void (edgeContext && isInRequest() ? this.#run(exchange) : asRequest(() => this.#run(exchange)));
  }

  async #run(exchange: Exchange): Promise<void> {
    const { id } = exchange.request;
    this.#exchanges.set(id, exchange);
    let response: Response | undefined;
    try {
      const { unsupported } = exchange.peer.families;
      response =
        (unsupported && versionRefusal(exchange, unsupported)) ??
        (await compose(this.#attachment.stack, exchange, () => this.#handle(exchange)));
    } catch (error) {
      if (error !== NO_RESPONSE)
        response = exchange.respond({
          error: this.#attachment.fault(error, exchange.runs === 0 ? 'not-done' : 'unknown'),
        });
    } finally {
      if (this.#exchanges.get(id) === exchange) this.#exchanges.delete(id);
      this.#order.end(exchange);
    }
    if (response) this.#reply(response);
  }

  async #handle(exchange: Exchange): Promise<Response> {
    const response = await exchange.handle(() => {
      this.#tap.deliver(exchange.request, exchange.extra);
      this.#order.end(exchange);
    });
    return this.#introducing(exchange, withoutAdvice(exchange, response, this.#attachment.fault));
  }

  #notified(message: Notification, extra: unknown): void {
    if (message.method === 'notifications/cancelled')
      this.#exchanges.get(message.params?.['requestId'] as Id)?.cancel('cancelled');
    if (!this.#order.pass({ message, extra })) this.#attachment.fault(tooManyNotifications());
  }

  #notifying(message: Notification): Notification | undefined {
    return this.#attachment.notifying(this.#cancelling(message), currentExchange(this), this);
  }

  /** Handles the SDK's response to a request. */
  #responded(response: Response, options: unknown): Promise<void> {
    const { id } = response;
    const exchange = this.#exchanges.get(id as Id);
    return exchange?.answered(response) ? Promise.resolve() : this.send(response, options);
  }

  /** Makes the ids of this link's own requests unique, since another instance may use the same numbers. */
  get #nonce(): string {
    this.#name ??= `${processName()}${this.#number.toString(36)}`;
    return this.#name;
  }

  /** Whether a message that expects no response names an unknown transport session. The edge then reports it. */
  #isLost(extra: unknown): boolean {
    const edgeContext = takeEdgeContext(this.owner, this.#number, extra);
    return edgeContext?.stray?.judge(this.transport.sessionId !== undefined) !== undefined;
  }

  #reply(response: Response): void {
    this.send(response).catch((error: unknown) => this.transport.onerror?.(error as Error));
  }

  #introducing(exchange: Exchange, response: Response): Response {
    if (!INTRODUCTIONS.has(exchange.method) || !('result' in response)) return response;
    const own = response.result['capabilities'] as JsonObject | undefined;
    const capabilities = announceServer(this.#attachment.families(exchange));
    return {
      ...response,
      result: { ...response.result, capabilities: mergeCapabilities(own, capabilities) },
    };
  }

  #asking(asked: Request): Message {
    const request = this.#attachment.asking?.(asked) ?? asked;
    if (typeof request.id !== 'number') return request;
    const id = `${this.#nonce}.${request.id}`;
    this.#asked ??= new Map();
    this.#asked.set(id, request.id);
    return { ...request, id };
  }

  /**
   * Rewrites the id in a cancellation of the server's own request.
   *
   * The SDK uses its own id, while the client knows the one on the wire.
   */
  #cancelling(message: Notification): Notification {
    if (message.method !== 'notifications/cancelled' || !this.#asked) return message;
    for (const [wireId, own] of this.#asked) {
      if (own !== message.params?.['requestId']) continue;
      this.#asked.delete(wireId);
      return { ...message, params: { ...message.params, requestId: wireId } };
    }
    return message;
  }

  #answered(response: Response, top: Top | undefined, extra: unknown): void {
    const own = response.id === undefined || response.id === null ? undefined : this.#asked?.get(response.id);
    if (own !== undefined) {
      this.#asked?.delete(response.id as Id);
      this.#tap.deliver({ ...response, id: own } as Response, extra);
    } else if (!this.#attachment.answered(response, top, this, extra)) this.#tap.deliver(response, extra);
  }
}
