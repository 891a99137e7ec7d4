import { NO_RESPONSE } from '../core/compose.ts';
import type { AbortReason, Exchange } from '../core/exchange.ts';
import type { HttpHints } from '../link/edge-fetch.ts';
import { raise, type Top } from '../link/top.ts';
import {
  type Era,
  eraOf,
  type Id,
  type Message,
  type Params,
  type Request,
  type Response,
  type Result,
} from '../wire/index.ts';
import { type Spelling, spellingOf } from '../wire/spelling.ts';
import type { Connection } from './connection.ts';

/** What a call sends in addition to its request, or instead of it. */
export interface CallForm {
  /** Top-level members to send with it, as JSON text. */
  readonly top?: Top | undefined;
  /**
   * Set if the server already has the request from an earlier time. Only the answer to its question is sent, and it is
   * built when it is about to be sent.
   */
  readonly answer?: { readonly message: () => Message; readonly wireId?: Id | undefined } | undefined;
}

/** The form of the SDK's own requests. */
const PLAIN: CallForm = {};

type Meta = Readonly<Record<string, unknown>>;

/** A client request, from its creation until its response is delivered. */
export class Call implements Exchange<Request> {
  readonly direction = 'out';
  readonly connection: Connection;
  /** The request as the SDK or Valise created it. */
  readonly request: Request;
  readonly era: Era;
  /** The names that middleware uses for its additions: those that the request already uses, or else those of its server. */
  readonly spelling: Spelling;
  readonly form: CallForm;
  /** The params to send. Those of a later round contain its answers. */
  params: Params | undefined;
  /** Top-level members to send with it, as JSON text. */
  top: Top | undefined;
  /** The id on the wire, without {@link mark}. A middleware may change it before `next()`. */
  baseId: Id;
  /** A suffix for the id on the wire, set if the server has already received a request with that id. */
  mark: string | undefined;
  /** Top-level members that came with the latest response, as JSON text. */
  cameWith: Top | undefined;
  /** The stored session that the call belongs to, if a middleware sets it. Session-scope state follows it. */
  session: string | undefined;
  /** The options that the SDK passed to its transport with the request: headers, and the signal that aborts it. */
  options: unknown;
  /** The known state of the transport's session when the call was sent. */
  leftIn: object | undefined;
  /** Hints for the HTTP request that carries it; see {@link addHints}. */
  hints: HttpHints | undefined;
  /** Whether the caller has sent a cancellation for it. */
  cancelled = false;
  /** Whether its response will arrive on another stream than the one its request opened. */
  movedOn = false;
  /** A result that is already known. Nothing is sent, and middleware sees this result as if the server had returned it. */
  known: Result | undefined;
  /** The reason why it could not be delivered, if that made `next()` reject. */
  undelivered: unknown;
  /** Resolves the promise that the SDK's `send` waits for. */
  sent: () => void = () => {};
  #meta: Record<string, Meta | undefined> | undefined;
  #abort: AbortController | undefined;
  #reason: AbortReason | undefined;
  #settle: ((response: Response) => void) | undefined;
  #fail: ((error: unknown) => void) | undefined;

  constructor(connection: Connection, request: Request, form: CallForm = PLAIN) {
    this.connection = connection;
    this.request = request;
    this.form = form;
    this.params = request.params;
    this.top = form.top;
    this.era = eraOf(request);
    this.spelling = spellingOf(request, connection.server.spelling(this.era));
    this.baseId = form.answer?.wireId ?? request.id;
  }

  get method(): string {
    return this.request.method;
  }

  /** The id on the wire. */
  get wireId(): Id {
    return this.mark === undefined ? this.baseId : `${this.baseId}${this.mark}`;
  }

  /** Whether the server has started the call: this request answers one of its questions, or such an answer was sent before. */
  get hasBegun(): boolean {
    const { requestState, inputResponses } = this.params ?? {};
    const { answer } = this.form;
    return (
      this.movedOn ||
      (requestState ?? inputResponses ?? this.top?.dependent_responses ?? answer) !== undefined
    );
  }

  /** Aborted once nobody waits for the response: the caller has given up on it, or the connection has closed. */
  get signal(): AbortSignal {
    if (this.#abort) return this.#abort.signal;
    const { signal } = (this.#abort = new AbortController());
    const sdk = this.#requestSignal;
    const give = (): void => this.leave(saysTimeout(sdk?.reason) ? 'timeout' : 'cancelled');
    if (this.#reason !== undefined) this.#abort.abort(this.#reason);
    else if (sdk?.aborted) give();
    else sdk?.addEventListener('abort', give, { once: true, signal });
    return signal;
  }

  /** The signal that the SDK aborts instead of sending a cancellation, on 2026-07-28 over HTTP. */
  get #requestSignal(): AbortSignal | undefined {
    return (this.options as { readonly requestSignal?: AbortSignal } | undefined)?.requestSignal;
  }

  /** Whether the caller has given up on the response, by a cancellation or by the SDK's signal. */
  get isGivenUp(): boolean {
    return this.cancelled || this.#requestSignal?.aborted === true;
  }

  /** Gives up on the response, which may still arrive. */
  cancel(reason: AbortReason): void {
    this.cancelled = true;
    this.#reason ??= reason;
    this.#abort?.abort(this.#reason);
  }

  /** Adds to the outgoing `_meta`, replacing the earlier addition for the same reason. */
  addMeta(reason: string, fragment: Meta | undefined): void {
    this.#meta ??= {};
    this.#meta[reason] = fragment;
  }

  /** Sets hints for the HTTP request that carries this call. They have no effect on other transports. */
  addHints(hints: HttpHints): void {
    this.hints = this.hints
      ? { ...this.hints, ...hints, headers: { ...this.hints.headers, ...hints.headers } }
      : hints;
  }

  /** Returns the message to send, with all additions. */
  outgoing(): Message {
    const { answer } = this.form;
    if (answer) return answer.message();
    const request = this.#withMeta();
    return this.top ? raise(request, this.top) : request;
  }

  #withMeta(): Request {
    const { request, params, wireId } = this;
    const added = this.#meta && Object.assign({}, ...Object.values(this.#meta));
    const isPlain = !added || Object.keys(added).length === 0;
    if (isPlain && params === request.params)
      return wireId === request.id ? request : { ...request, id: wireId };
    const changed = isPlain ? params : { ...params, _meta: { ...params?._meta, ...added } };
    return { ...request, id: wireId, ...(changed && { params: changed }) };
  }

  /** Calls `send` and waits for the response. Rejects if the call cannot be delivered. */
  wait(send: () => Promise<void>): Promise<Response> {
    return new Promise<Response>((resolve, reject) => {
      this.#settle = resolve;
      this.#fail = reject;
      send().then(this.sent, (error: unknown) => {
        this.undelivered = error;
        reject(error);
      });
    });
  }

  /** Settles the call with its response, or with one that replaces a response that cannot arrive. */
  settle(response: Response, cameWith?: Top): void {
    this.cameWith = cameWith;
    const { id } = this.request;
    this.#settle?.(response.id === id ? response : ({ ...response, id } as Response));
  }

  /** Ends the call without a response. */
  leave(reason: AbortReason = 'closed'): void {
    this.#reason ??= reason;
    this.#abort?.abort(this.#reason);
    this.#fail?.(NO_RESPONSE);
  }

  /** Ends the call with an error, because its response cannot arrive. */
  fail(error: unknown): void {
    this.#fail?.(error);
  }
}

/** Whether an SDK's text reports a timeout. The SDKs have no code for it. */
export function saysTimeout(reason: unknown): boolean {
  return /timed? ?out/i.test(String(reason));
}
