import { compose, type Middleware, NO_RESPONSE } from './compose.ts';
import { messageOf } from './errors.ts';
import { type AbortReason, type IncomingExchange, type OutgoingExchange, withId } from './exchange.ts';
import { Instrument, type TransportLike } from './instrument.ts';
import {
  type Id,
  isNotification,
  isRequest,
  type Message,
  type Notification,
  type Request,
  type Response,
} from './message.ts';
import { NotificationOrder } from './notification-order.ts';

/** A message, and the members that came with it although JSON-RPC does not define them. */
export interface Decoded<Top> {
  readonly message: Message;
  readonly top?: Top | undefined;
}

/** A notification with the transport's data about it. */
interface Notified {
  readonly notification: Notification;
  readonly extra: unknown;
}

/** How a {@link Link} is set up. */
export interface LinkOptions<In, Out> {
  /** The Valise that the link belongs to. */
  readonly owner: object;
  /** The middlewares around requests of the peer, outermost first. */
  readonly incoming: readonly Middleware<In, Response>[];
  /** The middlewares around requests to the peer, outermost first. */
  readonly outgoing: readonly Middleware<Out, Response>[];
  /** Whether the SDK sets its handlers once, before the transport starts, as servers do. */
  readonly setOnce: boolean;
}

/**
 * The maximum number of cancelled requests that may still be answered. A peer may finish before it receives the
 * cancellation, but usually does not answer a cancelled request.
 */
const MAX_CANCELLED = 32;

/**
 * Connects the SDK to one transport, and passes every request through the middlewares. Clients and servers of both SDK
 * majors extend it with what they know about a request.
 */
export abstract class Link<
  In extends IncomingExchange,
  Out extends OutgoingExchange,
  Top,
> extends Instrument {
  /** The Valise that the link belongs to. */
  readonly owner: object;
  readonly #incoming: readonly Middleware<In, Response>[];
  readonly #outgoing: readonly Middleware<Out, Response>[];
  /** Keeps notifications of the peer behind the messages that arrived before them. */
  readonly #order = new NotificationOrder<Notified>(({ notification, extra }) =>
    this.notified(notification, extra),
  );
  /** The requests of the peer that the SDK is handling, by their ids. */
  readonly handling = new Map<unknown, In>();
  /** All requests to the peer that have not ended. */
  readonly #open = new Set<Out>();
  /** The requests to the peer that wait for their response, by their ids on the wire. */
  readonly waiting = new Map<unknown, Out>();
  #cancelled: Out[] = [];

  constructor(transport: TransportLike, { owner, incoming, outgoing, setOnce }: LinkOptions<In, Out>) {
    super(transport, owner, setOnce);
    this.owner = owner;
    this.#incoming = incoming;
    this.#outgoing = outgoing;
  }

  /** Separates a message from the members that JSON-RPC does not define. */
  protected abstract decode(message: Message): Decoded<Top>;

  /** Called for a request of the peer. Calls {@link serve}, or answers it without the middlewares. */
  protected abstract requested(request: Request, top: Top | undefined, extra: unknown): void;

  /** Returns the exchange for a request of the SDK, or undefined to send it without the middlewares. */
  protected abstract requesting(request: Request, options: unknown): Out | undefined;

  /** Called for a notification of the peer when it is its turn. */
  protected abstract notified(notification: Notification, extra: unknown): void;

  /** Called if more notifications are held back than allowed. The rest is dropped. */
  protected abstract overflowed(): void;

  /** Returns the notification of the SDK to send, or undefined to drop it. */
  protected notifying(notification: Notification, _options: unknown): Notification | undefined {
    return notification;
  }

  /** Called for a response that belongs to no request of this link. */
  protected unmatched(response: Response, _top: Top | undefined, extra: unknown): void {
    this.deliver(response, extra);
  }

  /** Called for the response to a request, before its exchange continues. */
  protected abstract answered(call: Out, response: Response, top: Top | undefined): void;

  /** Called for an error of a middleware. Returns the response to send instead, or throws. */
  protected abstract failed(exchange: In, error: unknown): Response;

  /** Sends the response of a request. */
  protected respond(_exchange: In, response: Response): Promise<void> {
    return this.send(response);
  }

  /** The innermost step of a request to the peer: sends it. */
  protected transmit(call: Out): Promise<void> {
    return this.send(call.outgoing(), call.options);
  }

  /** Passes a message to the SDK as if it had arrived. Reports what the SDK throws, because no caller awaits it. */
  override deliver(message: Message, extra?: unknown): void {
    try {
      super.deliver(message, extra);
    } catch (error) {
      this.transport.onerror?.(error as Error);
    }
  }

  /** Lets notifications pass that arrived after a message which is still being processed. */
  release(exchange: In | Out): void {
    this.#order.end(exchange);
  }

  receive(arrived: Message, extra?: unknown): void {
    const { message, top } = this.decode(arrived);
    if (isRequest(message)) this.requested(message, top, extra);
    else if (isNotification(message)) {
      // The SDKs do not respond to cancelled requests.
      if (message.method === 'notifications/cancelled')
        this.handling.get(message.params?.['requestId'])?.leave('cancelled');
      if (!this.#order.pass({ notification: message, extra })) this.overflowed();
    } else this.#responded(message, top, extra);
  }

  protected sending(message: Message, options: unknown): Promise<void> {
    if (isRequest(message)) {
      const call = this.requesting(message, options);
      return call ? this.#request(call) : this.send(message, options);
    }
    if (isNotification(message)) {
      const cancelling = this.#cancelling(message);
      const passed = cancelling && this.notifying(cancelling, options);
      return passed ? this.send(passed, options) : Promise.resolve();
    }
    const exchange = this.handling.get(message.id);
    return exchange?.answered(message) ? (exchange.sent ?? Promise.resolve()) : this.send(message, options);
  }

  ended(): void {
    for (const call of this.#open) call.leave('closed');
    this.#cancelled = [];
    for (const exchange of this.handling.values()) exchange.leave('closed');
  }

  /** Passes a request of the peer through the middlewares to the SDK, and sends the response. */
  protected async serve(exchange: In, holdsBack = true): Promise<void> {
    const { id } = exchange.request;
    this.handling.set(id, exchange);
    if (holdsBack) this.#order.begin(exchange);
    let response: Response | undefined;
    try {
      response = await compose(this.#incoming, exchange, () => this.handle(exchange));
    } catch (error) {
      if (error !== NO_RESPONSE) response = this.failed(exchange, error);
    } finally {
      if (this.handling.get(id) === exchange) this.handling.delete(id);
      this.#order.end(exchange);
    }
    if (response) await this.respond(exchange, response);
  }

  /** The innermost step of a request of the peer: gives it to the SDK and waits for the response. */
  protected handle(exchange: In): Promise<Response> {
    return exchange.handle(() => {
      this.deliver(exchange.request, exchange.extra);
      this.#order.end(exchange);
    });
  }

  /** Gives the SDK a request that the peer has not sent, and resolves to its response. */
  protected async handleOwn(exchange: In): Promise<Response> {
    const { id } = exchange.request;
    this.handling.set(id, exchange);
    try {
      return await this.handle(exchange);
    } finally {
      this.handling.delete(id);
    }
  }

  /** Sends an SDK request. The returned promise settles as the SDK's `send` does: once the request has been sent. */
  #request(call: Out): Promise<void> {
    return new Promise((resolve, reject) => {
      let isSent = false;
      call.sent = () => {
        isSent = true;
        resolve();
      };
      this.run(call).then(
        (response) => {
          call.sent();
          // The SDKs expect a response only after `send` has returned.
          queueMicrotask(() => {
            this.deliver(response);
            this.#order.end(call);
          });
        },
        (error: unknown) => {
          if (error === NO_RESPONSE) call.sent();
          else if (isSent) this.deliver(failure(call.request.id, error));
          else reject(error);
          this.#order.end(call);
        },
      );
    });
  }

  /** Passes a request to the peer through the middlewares. Call {@link release} after its response is processed. */
  protected async run(call: Out): Promise<Response> {
    this.#open.add(call);
    try {
      return await compose(this.#outgoing, call, () => this.#exchange(call));
    } finally {
      this.#open.delete(call);
      this.stopWaiting(call);
    }
  }

  /** The innermost step of a request to the peer: sends it and waits for its response. */
  async #exchange(call: Out): Promise<Response> {
    this.#order.end(call);
    if (call.isGivenUp) throw NO_RESPONSE;
    if (call.known) return { jsonrpc: '2.0', id: call.request.id, result: call.known };
    this.waiting.set(call.wireId, call);
    try {
      return await call.exchange(() => this.transmit(call));
    } finally {
      this.stopWaiting(call);
    }
  }

  /** Stops waiting for the response to a request. */
  protected stopWaiting(call: Out): void {
    if (this.waiting.get(call.wireId) === call) this.waiting.delete(call.wireId);
  }

  #responded(response: Response, top: Top | undefined, extra: unknown): void {
    const call = this.waiting.get(response.id);
    if (!call) {
      this.unmatched(response, top, extra);
      return;
    }
    this.waiting.delete(response.id);
    this.#order.begin(call);
    this.answered(call, response, top);
    call.settle(withId(response, call.request.id));
  }

  /**
   * Marks the request that a notification of the SDK cancels, and replaces its id with the one on the wire. Returns
   * undefined if the request was never sent.
   */
  #cancelling(notification: Notification): Notification | undefined {
    if (notification.method !== 'notifications/cancelled') return notification;
    const { requestId, reason } = notification.params ?? {};
    const call = this.cancel(requestId, saysTimeout(reason) ? 'timeout' : 'cancelled');
    if (call && this.waiting.get(call.wireId) !== call) return undefined;
    if (!call || call.wireId === requestId) return notification;
    return { ...notification, params: { ...notification.params, requestId: call.wireId } };
  }

  /** Marks a request as cancelled and returns it. The most recent ones that were sent may still be answered. */
  protected cancel(id: unknown, reason: AbortReason): Out | undefined {
    for (const call of this.#open) {
      if (call.request.id !== id || call.cancelled) continue;
      call.cancel(reason);
      if (this.waiting.get(call.wireId) !== call) return call;
      this.#cancelled.push(call);
      if (this.#cancelled.length > MAX_CANCELLED) this.#cancelled.shift()?.leave('closed');
      return call;
    }
    return undefined;
  }
}

/** Whether an SDK's text reports a timeout. The SDKs have no code for it. */
export function saysTimeout(reason: unknown): boolean {
  return /timed? ?out/i.test(String(reason));
}

/** Returns an error response for a request whose own response could not be processed. */
function failure(id: Id, error: unknown): Response {
  return { jsonrpc: '2.0', id, error: { code: -32_000, message: messageOf(error) } };
}
