import { type Middleware, NO_RESPONSE } from '../core/compose.ts';
import type { AbortReason, Exchange } from '../core/exchange.ts';
import { type HttpHints, withHints } from '../link/edge-fetch.ts';
import type { Top } from '../link/top.ts';
import type { Request, Response } from '../wire/message.ts';
import type { Connection } from './connection.ts';

/** A middleware around a request from the server. */
export type ServerRequestMiddleware = Middleware<ServerRequest, Response>;

/** A request from the server, from its arrival until the client's response is sent. */
export class ServerRequest implements Exchange<Request> {
  readonly direction = 'in';
  readonly connection: Connection;
  readonly request: Request;
  /** Top-level members that came with it, as JSON text. */
  readonly top: Top | undefined;
  /** The known state of the transport's session when the client answered. */
  leftIn: object | undefined;
  /** Settles when the response has been sent. Undefined if Valise itself asks. */
  done: Promise<void> | undefined;
  readonly #abort = new AbortController();
  #settle: ((response: Response) => void) | undefined;
  #fail: ((error: unknown) => void) | undefined;

  constructor(connection: Connection, request: Request, top: Top | undefined) {
    this.connection = connection;
    this.request = request;
    this.top = top;
  }

  get method(): string {
    return this.request.method;
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  /** Records that nobody waits for the response. */
  cancel(reason: AbortReason): void {
    this.#abort.abort(reason);
    this.#fail?.(NO_RESPONSE);
  }

  /** Calls `deliver` to give the request to the SDK, and resolves to the response of the client's handler. */
  handle(deliver: () => void): Promise<Response> {
    if (this.signal.aborted) return Promise.reject(NO_RESPONSE);
    return new Promise<Response>((resolve, reject) => {
      this.#settle = resolve;
      this.#fail = reject;
      deliver();
    });
  }

  /** Takes the response of the client's handler. */
  answered(response: Response): void {
    this.#settle?.(response);
  }

  /** Sends a response, with hints for the HTTP request that carries it. Rejects if it cannot be delivered. */
  respond(response: Response, hints?: HttpHints): Promise<void> {
    const send = (): Promise<void> => this.connection.link.send(response);
    return hints ? withHints(hints, send) : send();
  }
}
