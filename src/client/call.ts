import type { Middleware } from '../core/compose.ts';
import { IncomingExchange, OutgoingExchange } from '../core/exchange.ts';
import { saysTimeout } from '../core/link.ts';
import type { Response } from '../core/message.ts';
import { raise, type Top } from '../edge/drafts.ts';
import { type HttpHints, withHints } from '../edge/fetch.ts';
import { type Codec, codecOf } from '../wire/codec.ts';
import type { Era, Id, Message, Params, Request } from '../wire/index.ts';
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
export class Call extends OutgoingExchange {
  readonly connection: Connection;
  /** What the protocol revision of the request does differently. */
  readonly codec: Codec;
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
  /** The known state of the transport's session when the call was sent. */
  leftIn: object | undefined;
  /** Hints for the HTTP request that carries it; see {@link addHints}. */
  hints: HttpHints | undefined;
  /** Whether its response will arrive on another stream than the one its request opened. */
  movedOn = false;
  #meta: Record<string, Meta | undefined> | undefined;
  #signal: AbortSignal | undefined;

  constructor(connection: Connection, request: Request, form: CallForm = PLAIN) {
    super(request);
    this.connection = connection;
    this.form = form;
    this.params = request.params;
    this.top = form.top;
    this.codec = codecOf(request);
    this.spelling = spellingOf(request, connection.server.spelling(this.codec.era));
    this.baseId = form.answer?.wireId ?? request.id;
  }

  get era(): Era {
    return this.codec.era;
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
  override get signal(): AbortSignal {
    if (this.#signal) return this.#signal;
    this.#signal = super.signal;
    const sdk = this.#requestSignal;
    const leave = (): void => this.leave(saysTimeout(sdk?.reason) ? 'timeout' : 'cancelled');
    if (sdk?.aborted) leave();
    else sdk?.addEventListener('abort', leave, { once: true, signal: this.#signal });
    return this.#signal;
  }

  /** The signal that the SDK aborts instead of sending a cancellation, on 2026-07-28 over HTTP. */
  get #requestSignal(): AbortSignal | undefined {
    return (this.options as { readonly requestSignal?: AbortSignal } | undefined)?.requestSignal;
  }

  /** Whether the caller has given up on the response, by a cancellation or by the SDK's signal. */
  override get isGivenUp(): boolean {
    return this.cancelled || this.#requestSignal?.aborted === true;
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
}

/** A middleware around a request from the server. */
export type ServerRequestMiddleware = Middleware<ServerRequest, Response>;

/** A request from the server, from its arrival until the client's response is sent. */
export class ServerRequest extends IncomingExchange {
  readonly connection: Connection;
  /** Top-level members that came with it, as JSON text. */
  readonly top: Top | undefined;
  /** The known state of the transport's session when the client answered. */
  leftIn: object | undefined;

  constructor(connection: Connection, request: Request, top: Top | undefined) {
    super(request);
    this.connection = connection;
    this.top = top;
  }

  /** Sends a response, with hints for the HTTP request that carries it. Rejects if it cannot be delivered. */
  respond(response: Response, hints?: HttpHints): Promise<void> {
    const send = (): Promise<void> => this.connection.send(response);
    return hints ? withHints(hints, send) : send();
  }
}
