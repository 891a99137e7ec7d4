import { randomBytes } from 'node:crypto';
import type { Middleware } from '../core/compose.ts';
import { ValiseError } from '../core/errors.ts';
import type { TransportLike } from '../core/instrument.ts';
import { Link } from '../core/link.ts';
import { MAX_HELD } from '../core/notification-order.ts';
import { type Top, takeTop } from '../edge/drafts.ts';
import { withHints, withoutHints } from '../edge/fetch.ts';
import { type Codec, codecOf, negotiatedCodec } from '../wire/codec.ts';
import {
  type Families,
  INTERNAL_ERROR,
  INTRODUCTIONS,
  type Notification,
  type Params,
  type Request,
  type Response,
  type Result,
  type RpcError,
} from '../wire/index.ts';
import { Announcer } from './announcer.ts';
import { Call, ServerRequest, type ServerRequestMiddleware } from './call.ts';
import { CONNECTION_CLOSED } from './errors.ts';
import { Account } from './identity/account.ts';
import type { Target } from './identity/target.ts';
import { type OwnRequestOptions, resultOf } from './own-requests.ts';
import { ServerFacts } from './server-facts.ts';

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
export class Connection extends Link<ServerRequest, Call, Top> {
  readonly target: Target;
  /** The user this state belongs to, or `''` if the host does not tell users apart. */
  readonly principal: string;
  /** The account at the server that this connection acts for. */
  readonly account: Account;
  readonly server = new ServerFacts();
  /** Distinguishes its calls from those of other connections and earlier processes, which use the same ids. */
  readonly epoch = randomBytes(6).toString('base64url');
  readonly #parts: readonly ClientPart[];
  readonly #inwards: readonly ClientPart[];
  readonly #announcer: Announcer;
  #ownRequests = 0;
  #codec: Codec | undefined;
  #client: object | undefined;

  constructor(
    transport: TransportLike,
    { owner, target, principal, account, parts, stack, incoming = [] }: ConnectionOptions,
  ) {
    super(transport, { owner, incoming, outgoing: stack, setOnce: false });
    this.target = target;
    this.principal = principal;
    this.account = account ?? new Account();
    this.#parts = parts;
    this.#inwards = [...parts].reverse();
    this.#announcer = new Announcer(
      Object.assign({}, ...parts.map((part) => part.announce?.(this))) as Families,
    );
  }

  /**
   * The codec that the client has negotiated, or else that of the latest request, or of the next one if nothing was sent
   * yet.
   */
  get codec(): Codec {
    return (
      negotiatedCodec(this.#client) ?? this.#codec ?? codecOf({ params: { _meta: this.#announcer.envelope } })
    );
  }

  /** Whether a server may send the client requests during a call. Most of the support for flows is only needed then. */
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
    const request = this.#ownRequest(method, _meta ? { ...params, _meta } : params);
    const call = this.#callFor(request, form);
    prepare?.(call);
    try {
      return await resultOf(call, this.run(call), timeout, () => this.cancel(request.id, 'timeout'));
    } finally {
      this.release(call);
    }
  }

  /** Passes a request to the client's own handlers, as if the server had sent it, and waits for their response. */
  async askClient(method: string, params: Params | undefined, signal?: AbortSignal): Promise<Response> {
    const request = this.#ownRequest(method, params);
    const exchange = new ServerRequest(this, request, undefined);
    const withdraw = (): void => this.withdraw(exchange);
    signal?.addEventListener('abort', withdraw, { once: true });
    try {
      return await this.handleOwn(exchange);
    } catch {
      const error = exchange.aborted === 'closed' ? CONNECTION_CLOSED : CANCELLED;
      return { jsonrpc: '2.0', id: request.id, error };
    } finally {
      signal?.removeEventListener('abort', withdraw);
    }
  }

  /** Returns a request with an id that the SDK never uses. */
  #ownRequest(method: string, params: Params | undefined): Request {
    return { jsonrpc: '2.0', id: `valise:${++this.#ownRequests}`, method, ...(params && { params }) };
  }

  /** Tells the client's handler that its answer is no longer needed. */
  withdraw(exchange: ServerRequest): void {
    const { id } = exchange.request;
    if (exchange.aborted !== undefined || this.handling.get(id) !== exchange) return;
    exchange.leave('cancelled');
    this.deliver({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: id } });
  }

  /** Ends a call with an error from Valise, as if the server had returned it. */
  fail(call: Call, code: number, message: string, data?: object): void {
    this.stopWaiting(call);
    // What came with an earlier response does not belong to this one.
    call.cameWith = undefined;
    call.settle({ jsonrpc: '2.0', id: call.request.id, error: { code, message, ...(data && { data }) } });
  }

  /** Returns true if a part has fixed the reason why a message of the call could not be delivered. */
  async putRight(call: Call, error: unknown): Promise<boolean> {
    for (const part of this.#parts) if (await part.undelivered?.(call, error)) return true;
    return false;
  }

  protected decode = takeTop;

  protected requested(request: Request, top: Top | undefined): void {
    if (this.handling.size >= MAX_SERVER_REQUESTS) {
      this.#refuse(request);
      return;
    }
    const exchange = new ServerRequest(this, request, top);
    exchange.sent = this.serve(exchange);
    // The SDK, which waits for it too, reports a response that could not be sent.
    exchange.sent.catch(() => undefined);
  }

  /** A handler may send requests of its own, to which the hints of the current one do not apply. */
  protected override handle(exchange: ServerRequest): Promise<Response> {
    return withoutHints(() => super.handle(exchange));
  }

  protected override respond(exchange: ServerRequest, response: Response): Promise<void> {
    return exchange.respond(response);
  }

  protected failed(_exchange: ServerRequest, error: unknown): never {
    throw error;
  }

  protected requesting(request: Request, options: unknown): Call {
    const call = this.#callFor(request);
    call.options = options;
    return call;
  }

  #callFor(request: Request, form?: OwnRequestOptions): Call {
    const remembered = this.target.kind !== 'http' || this.transport.sessionId !== undefined;
    const call = new Call(this, this.#announcer.announce(request, remembered), form);
    this.#codec = call.codec;
    return call;
  }

  protected override async run(call: Call): Promise<Response> {
    const response = await super.run(call);
    if (INTRODUCTIONS.has(call.method) && 'result' in response) {
      this.server.introduce(response.result, call.known === undefined);
      this.#announcer.hear(call.method, response.result);
    }
    return response;
  }

  protected override transmit(call: Call): Promise<void> {
    const { hints } = call;
    const send = (): Promise<void> => this.send(call.outgoing(), call.options);
    return hints ? withHints(hints, send) : send();
  }

  protected answered(call: Call, response: Response, top: Top | undefined): void {
    if ('result' in response) this.server.hear(response.result);
    call.cameWith = top;
  }

  protected notified(notification: Notification): void {
    if (!this.#inwards.some((part) => part.notified?.(notification, this))) this.deliver(notification);
  }

  /** Rejects the request of a server that exceeds the limit. The client's handlers never see it. */
  #refuse({ id }: Request): void {
    this.#tooMany(`asked more than ${MAX_SERVER_REQUESTS} things at a time, and gets an error for the rest`);
    const error = { code: INTERNAL_ERROR, message: 'Too many requests at a time' };
    this.send({ jsonrpc: '2.0', id, error }).catch(() => undefined);
  }

  protected overflowed(): void {
    this.#tooMany(`sent more than ${MAX_HELD} notifications behind its responses, and the rest is dropped`);
  }

  /** Reports a limit that the server has exceeded. */
  #tooMany(what: string): void {
    this.transport.onerror?.(
      new ValiseError('limit-reached', `The server has ${what}.`, {
        next: 'If this continues, close the connection.',
      }),
    );
  }

  override ended(): void {
    for (const part of this.#inwards) part.closed?.(this);
    super.ended();
  }
}

/**
 * One feature on the client side. A connection calls its parts in order for outgoing messages and in reverse order for
 * incoming ones. These hooks are the only points where a part sees a message.
 */
export interface ClientPart {
  /** Returns the capabilities of this feature that the client announces to the server. */
  announce?(connection: Connection): Families;
  /** Loads state before anything is sent. */
  opening?(connection: Connection): void | Promise<void>;
  /** Called for a notification from the server. Returns true to hide it from the SDK. */
  notified?(notification: Notification, connection: Connection): boolean;
  /** Called if a call, or an answer during it, could not be delivered. Resolves to true if it should be sent once more. */
  undelivered?(call: Call, error: unknown): Promise<boolean>;
  /** Called when the transport has closed. */
  closed?(connection: Connection): void;
}

/** Sends a call once more if `part` has fixed the reason why it could not be delivered. */
export function sendingAgain(part: Required<Pick<ClientPart, 'undelivered'>>): ClientMiddleware {
  return async (call, next) => {
    try {
      return await next();
    } catch (error) {
      if (error !== call.undelivered || !(await part.undelivered(call, error)) || call.isGivenUp) throw error;
      return next();
    }
  };
}
