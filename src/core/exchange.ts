import { NO_RESPONSE } from './compose.ts';
import type { Id, Message, Request, Response, Result } from './message.ts';

/** Why nobody waits for a response any longer. A caller that has timed out may want it later. */
export type AbortReason = 'cancelled' | 'timeout' | 'closed';

/** One request and its response, on either side. Middlewares pass it along; each side adds what its families need. */
abstract class Exchange {
  /** `in`: the peer asks, and the SDK here answers. `out`: the SDK here asks, and the peer answers. */
  abstract readonly direction: 'in' | 'out';
  /** A middleware may replace it before `next()`, with one of the same method. */
  request: Request;
  readonly method: string;
  #abort: AbortController | undefined;
  /** Why nobody waits for the response, or undefined if somebody does. Set by {@link abort}. */
  aborted: AbortReason | undefined;
  #settle: ((response: Response) => void) | undefined;
  #fail: ((error: unknown) => void) | undefined;

  constructor(request: Request) {
    this.request = request;
    this.method = request.method;
  }

  /** Aborted once nobody waits for the response, with an {@link AbortReason}. */
  get signal(): AbortSignal {
    this.#abort ??= new AbortController();
    if (this.aborted !== undefined) this.#abort.abort(this.aborted);
    return this.#abort.signal;
  }

  /** Records that nobody waits for the response, which may still arrive. The first reason stays. */
  abort(reason: AbortReason): void {
    this.aborted ??= reason;
    this.#abort?.abort(this.aborted);
  }

  /** Records that nobody waits for the response, and ends `next()` without one. */
  leave(reason: AbortReason): void {
    this.abort(reason);
    this.#fail?.(NO_RESPONSE);
  }

  /** Calls `start`, and waits for {@link settle} or {@link fail}. */
  wait(start: () => void): Promise<Response> {
    return new Promise<Response>((resolve, reject) => {
      this.#settle = resolve;
      this.#fail = reject;
      start();
    });
  }

  /** Ends the innermost step with a response. Returns false if it does not wait for one. */
  settle(response: Response): boolean {
    const settle = this.#settle;
    this.#settle = undefined;
    settle?.(response);
    return settle !== undefined;
  }

  /** Ends the innermost step with an error, because its response cannot arrive. */
  fail(error: unknown): void {
    this.#fail?.(error);
  }
}

/** A request of the peer, from its arrival until the SDK's response is sent. */
export abstract class IncomingExchange extends Exchange {
  readonly direction = 'in';
  /** The transport's data about the request: HTTP headers, verified auth, and so on. */
  readonly extra: unknown;
  /** Settles when the response has been sent. Undefined if the SDK need not wait for that. */
  sent: Promise<void> | undefined;

  constructor(request: Request, extra?: unknown) {
    super(request);
    this.extra = extra;
  }

  /** Calls `deliver` to give the request to the SDK, and resolves to the SDK's response. */
  handle(deliver: () => void): Promise<Response> {
    return this.aborted === undefined ? this.wait(deliver) : Promise.reject(NO_RESPONSE);
  }

  /** Takes the SDK's response. Returns false if it is to be sent as it is, without the middlewares. */
  answered(response: Response): boolean {
    return this.settle(response);
  }
}

/** A request to the peer, from its creation until its response is delivered. */
export abstract class OutgoingExchange extends Exchange {
  readonly direction = 'out';
  /** The options that the SDK passed to its transport with the request: headers, and the signal that aborts it. */
  options: unknown;
  /** Whether the caller has sent a cancellation for it. */
  cancelled = false;
  /** The reason why it could not be delivered, if that made `next()` reject. */
  undelivered: unknown;
  /** A result that is already known. Nothing is sent, and middlewares see it as if the peer had returned it. */
  known: Result | undefined;
  /** Resolves the promise that the SDK's `send` waits for. */
  sent: () => void = () => {};

  /** The id on the wire. */
  abstract get wireId(): Id;

  /** Returns the message to send. */
  abstract outgoing(): Message;

  /** Whether the caller no longer wants the response. */
  get isGivenUp(): boolean {
    return this.cancelled;
  }

  /** Records that the caller has given up on the response, which may still arrive. */
  cancel(reason: AbortReason): void {
    this.cancelled = true;
    this.abort(reason);
  }

  /** Calls `send` and waits for the response. Rejects if the request cannot be delivered. */
  exchange(send: () => Promise<void>): Promise<Response> {
    return this.wait(() => {
      send().then(this.sent, (error: unknown) => {
        this.undelivered = error;
        this.fail(error);
      });
    });
  }
}

/** Returns the response with the SDK's own id of the request. */
export function withId<R extends Response>(response: R, id: Id): R {
  return response.id === id ? response : { ...response, id };
}
