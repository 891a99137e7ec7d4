import { randomBytes } from 'node:crypto';
import { compose, type Middleware, NO_RESPONSE } from '../core/compose.ts';
import { MAX_HELD, NotificationOrder } from '../core/notification-order.ts';
import { ValiseError } from '../errors.ts';
import { withHints, withoutHints } from '../link/edge-fetch.ts';
import { type Hooks, instrument, type Link } from '../link/instrument.ts';
import { takeTop } from '../link/top.ts';
import type { TransportLike } from '../link/transport.ts';
import { negotiatedEra } from '../wire/era.ts';
import {
  type Era,
  type Families,
  type Id,
  INTERNAL_ERROR,
  INTRODUCTIONS,
  isNotification,
  isRequest,
  type Message,
  type Notification,
  type Params,
  type Request,
  type Response,
  type Result,
  type RpcError,
} from '../wire/index.ts';
import { Account } from './account.ts';
import { Announcer } from './announcer.ts';
import { Call, saysTimeout } from './call.ts';
import { Calls } from './calls.ts';
import { type OwnRequestOptions, resultOf } from './own-requests.ts';
import type { ClientPart } from './part.ts';
import { CONNECTION_CLOSED, failureOf } from './request-error.ts';
import { ServerFacts } from './server-facts.ts';
import { ServerRequest, type ServerRequestMiddleware } from './server-request.ts';
import type { Target } from './target.ts';

/** The maximum number of server requests handled at a time. */
const MAX_SERVER_REQUESTS = 1000;

const CANCELLED: RpcError = { code: -32_000, message: 'The call was cancelled.' };

/** One middleware around a client call. */
export type ClientMiddleware = Middleware<Call, Response>;

/** Options for {@link Connection}. */
export interface ConnectionOptions {
  readonly owner: object;
  readonly target: Target;
  readonly principal: string;
  /** Defaults to an account of no particular user. */
  readonly account?: Account | undefined;
  readonly parts: readonly ClientPart[];
  /** The middleware that calls pass through, outermost first. */
  readonly stack: readonly ClientMiddleware[];
  /** The middleware that requests from the server pass through, outermost first. */
  readonly incoming?: readonly ServerRequestMiddleware[] | undefined;
}

/** Connects one client to one transport and routes every message between them. */
export class Connection implements Hooks {
  readonly target: Target;
  /** The user this state belongs to, or `''` if the host does not tell users apart. */
  readonly principal: string;
  /** The account at the server that this connection acts for. */
  readonly account: Account;
  readonly server = new ServerFacts();
  /** Distinguishes its calls from those of other connections and earlier processes, which use the same ids. */
  readonly epoch = randomBytes(6).toString('base64url');
  readonly link: Link;
  readonly #parts: readonly ClientPart[];
  readonly #inwards: readonly ClientPart[];
  readonly #stack: readonly ClientMiddleware[];
  readonly #incoming: readonly ServerRequestMiddleware[];
  readonly #announcer: Announcer;
  readonly calls = new Calls();
  /** The requests that the client handles: those of the server, and those that Valise makes on its behalf. */
  readonly #serverRequests = new Map<Id, ServerRequest>();
  /** Messages that are being processed. Notifications that arrive meanwhile must not overtake them. */
  readonly order = new NotificationOrder<Notification>((message) => this.#notified(message));
  #ownRequests = 0;
  #era: Era | undefined;
  #client: object | undefined;

  constructor(
    transport: TransportLike,
    { owner, target, principal, account, parts, stack, incoming = [] }: ConnectionOptions,
  ) {
    this.target = target;
    this.principal = principal;
    this.account = account ?? new Account();
    this.#parts = parts;
    this.#inwards = [...parts].reverse();
    this.#stack = stack;
    this.#incoming = incoming;
    this.link = instrument(transport, owner, this);
    this.#announcer = new Announcer(
      Object.assign({}, ...parts.map((part) => part.announce?.(this))) as Families,
    );
  }

  /** The era that the client has negotiated, or else that of the latest request, or of the next one if nothing was sent yet. */
  get era(): Era {
    return negotiatedEra(this.#client) ?? this.#era ?? (this.#announcer.envelope ? 'modern' : 'legacy');
  }

  /** Whether a server may send the client requests during a call. Most of the support for rounds is only needed then. */
  get isAskable(): boolean {
    return this.#announcer.isAskable;
  }

  /** Sets the client that this connection belongs to. */
  speakFor(client: object): void {
    this.#client = client;
    this.#announcer.speakFor(client);
  }

  /** Lets every part load its state before the first message. */
  async open(): Promise<void> {
    this.account.begin();
    for (const part of this.#parts) await part.opening?.(this);
  }

  /** Sends one of Valise's own requests along the same path as the SDK's requests. */
  async request(
    method: string,
    params: Params = {},
    { timeout = 60, prepare, ...form }: OwnRequestOptions = {},
  ): Promise<Result> {
    const { envelope } = this.#announcer;
    // The client's own envelope takes precedence over Valise's values.
    const _meta = envelope ? { ...params._meta, ...envelope } : params._meta;
    const request: Request = {
      jsonrpc: '2.0',
      id: this.#newId(),
      method,
      params: _meta ? { ...params, _meta } : params,
    };
    const call = this.#callOf(request, undefined, form);
    prepare?.(call);
    return resultOf(call, this.#run(call), timeout, () => this.calls.cancel(request.id, 'timeout')).finally(
      () => this.order.end(call),
    );
  }

  /** Passes a request to the client's own handlers, as if the server had sent it, and waits for their response. */
  async askClient(method: string, params: Params | undefined, signal?: AbortSignal): Promise<Response> {
    const id = this.#newId();
    const request = { jsonrpc: '2.0' as const, id, method, ...(params && { params }) };
    const exchange = new ServerRequest(this, request, undefined);
    const withdraw = (): void => this.withdraw(exchange);
    signal?.addEventListener('abort', withdraw, { once: true });
    this.#serverRequests.set(id, exchange);
    try {
      return await this.#handle(exchange);
    } catch {
      const error = exchange.signal.reason === 'closed' ? CONNECTION_CLOSED : CANCELLED;
      return { jsonrpc: '2.0', id, error };
    } finally {
      this.#serverRequests.delete(id);
      signal?.removeEventListener('abort', withdraw);
    }
  }

  /** Returns an id that the SDK never uses. */
  #newId(): string {
    return `valise:${++this.#ownRequests}`;
  }

  /** Tells the client's handler that its answer is no longer needed. */
  withdraw(exchange: ServerRequest): void {
    const { id } = exchange.request;
    if (exchange.signal.aborted || this.#serverRequests.get(id) !== exchange) return;
    exchange.cancel('cancelled');
    this.link.deliver({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: id } });
  }

  /** Ends a call with an error from Valise, as if the server had returned it. */
  fail(call: Call, code: number, message: string, data?: object): void {
    this.calls.drop(call);
    call.settle({ jsonrpc: '2.0', id: call.request.id, error: { code, message, ...(data && { data }) } });
  }

  /** Returns true if a part has fixed the reason why a message of the call could not be delivered. */
  async putRight(call: Call, error: unknown): Promise<boolean> {
    for (const part of this.#parts) if (await part.undelivered?.(call, error)) return true;
    return false;
  }

  outbound(message: Message, options?: unknown): Message | undefined | Promise<void> {
    if (isRequest(message)) return this.#requesting(message, options);
    if (isNotification(message)) return this.#cancelling(message);
    const exchange = this.#serverRequests.get(message.id as Id);
    if (!exchange) return message;
    exchange.answered(message);
    return exchange.done;
  }

  /** Passes a request from the server through the middleware to the SDK, and sends the response. */
  async #answer(exchange: ServerRequest): Promise<void> {
    const { id } = exchange.request;
    this.#serverRequests.set(id, exchange);
    this.order.begin(exchange);
    try {
      const response = await compose(this.#incoming, exchange, () => this.#handle(exchange));
      await exchange.respond(response);
    } catch (error) {
      if (error !== NO_RESPONSE) throw error;
    } finally {
      if (this.#serverRequests.get(id) === exchange) this.#serverRequests.delete(id);
      this.order.end(exchange);
    }
  }

  /** The innermost step: gives the request to the SDK and waits for the response of the client's handler. */
  #handle(exchange: ServerRequest): Promise<Response> {
    return exchange.handle(() => {
      // A handler may send requests of its own.
      withoutHints(() => this.#deliver(exchange.request));
      this.order.end(exchange);
    });
  }

  /** Sends an SDK request. The returned promise settles as the SDK's `send` does: once the request has been sent. */
  #requesting(request: Request, options: unknown): Promise<void> {
    const call = this.#callOf(request, options);
    return new Promise((resolve, reject) => {
      let isSent = false;
      call.sent = () => {
        isSent = true;
        resolve();
      };
      this.#run(call).then(
        (response) => {
          call.sent();
          // The SDKs expect a response only after `send` has returned.
          queueMicrotask(() => {
            this.#deliver(response);
            this.order.end(call);
          });
        },
        (error: unknown) => {
          if (error === NO_RESPONSE) call.sent();
          else if (isSent) this.#deliver(failureOf(request, error));
          else reject(error);
          this.order.end(call);
        },
      );
    });
  }

  /** Delivers a message to the SDK. Reports what the SDK throws to the transport, because no caller awaits it. */
  #deliver(message: Message): void {
    try {
      this.link.deliver(message);
    } catch (error) {
      this.link.transport.onerror?.(error as Error);
    }
  }

  #callOf(request: Request, options: unknown, form?: OwnRequestOptions): Call {
    const remembered = this.target.kind !== 'http' || this.link.transport.sessionId !== undefined;
    const call = new Call(this, this.#announcer.announce(request, remembered), form);
    call.options = options;
    this.#era = call.era;
    return call;
  }

  async #run(call: Call): Promise<Response> {
    this.calls.begin(call);
    try {
      const response = await compose(this.#stack, call, () => this.#send(call));
      if (INTRODUCTIONS.has(call.method) && 'result' in response) {
        this.server.introduce(response.result, call.known === undefined);
        this.#announcer.hear(call.method, response.result);
      }
      return response;
    } finally {
      this.calls.end(call);
    }
  }

  /** The innermost step of the stack: sends the call and waits for its response. */
  async #send(call: Call): Promise<Response> {
    this.order.end(call);
    if (call.isGivenUp) throw NO_RESPONSE;
    if (call.known) return { jsonrpc: '2.0', id: call.request.id, result: call.known };
    this.calls.send(call);
    const send = (): Promise<void> => this.link.send(call.outgoing(), call.options);
    const { hints } = call;
    try {
      return await call.wait(() => (hints ? withHints(hints, send) : send()));
    } finally {
      this.calls.drop(call);
    }
  }

  /** Handles a message as if it had just arrived over the transport. */
  arrive(message: Message): void {
    const passed = this.inbound(message);
    if (passed) this.#deliver(passed);
  }

  /** Replaces the SDK's id in a cancellation with the id on the wire. Drops the cancellation if the call was never sent. */
  #cancelling(message: Notification): Message | undefined {
    if (message.method !== 'notifications/cancelled') return message;
    const { requestId, reason } = message.params ?? {};
    const call = this.calls.cancel(requestId, saysTimeout(reason) ? 'timeout' : 'cancelled');
    if (call && this.calls.get(call.wireId) !== call) return undefined;
    if (!call || call.wireId === requestId) return message;
    return { ...message, params: { ...message.params, requestId: call.wireId } };
  }

  inbound(arrived: Message): Message | undefined {
    const { message, top } = takeTop(arrived);
    if (isRequest(message)) {
      if (this.#serverRequests.size >= MAX_SERVER_REQUESTS) return this.#refuse(message);
      const exchange = new ServerRequest(this, message, top);
      exchange.done = this.#answer(exchange);
      // The SDK, which waits for it too, reports a response that could not be sent.
      exchange.done.catch(() => undefined);
      return undefined;
    }
    if (isNotification(message)) {
      if (!this.order.pass(message))
        this.#tooMany(
          `sent more than ${MAX_HELD} notifications behind its responses, and the rest is dropped`,
        );
      return undefined;
    }
    const call = this.calls.take(message);
    if (!call) return message;
    if ('result' in message) this.server.hear(message.result);
    this.order.begin(call);
    call.settle(message, top);
    return undefined;
  }

  #notified(message: Notification): void {
    // The SDKs do not respond to cancelled requests.
    if (message.method === 'notifications/cancelled')
      this.#serverRequests.get(message.params?.['requestId'] as Id)?.cancel('cancelled');
    if (!this.#inwards.some((part) => part.notified?.(message, this))) this.link.deliver(message);
  }

  /** Rejects the request of a server that exceeds the limit. The client's handlers never see it. */
  #refuse({ id }: Request): undefined {
    this.#tooMany(`asked more than ${MAX_SERVER_REQUESTS} things at a time, and gets an error for the rest`);
    const error = { code: INTERNAL_ERROR, message: 'Too many requests at a time' };
    this.link.send({ jsonrpc: '2.0', id, error }).catch(() => undefined);
    return undefined;
  }

  /** Reports a limit that the server has exceeded. */
  #tooMany(what: string): void {
    this.link.transport.onerror?.(
      new ValiseError('limit-reached', `The server has ${what}.`, {
        next: 'Close the connection if it goes on.',
      }),
    );
  }

  closed(): void {
    for (const part of this.#inwards) part.closed?.(this);
    this.calls.closed();
    for (const exchange of this.#serverRequests.values()) exchange.cancel('closed');
  }
}
