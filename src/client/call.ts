import { NO_RESPONSE } from '../core/compose.ts';
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

/** What goes out of a call besides its request, or in its place. */
export interface CallForm {
  /** Top-level members that go out with it, as text. */
  readonly top?: Top | undefined;
  /**
   * The server has the request already, from an earlier time: all that goes out is the answer to its question, made once
   * its turn has come.
   */
  readonly answer?: { readonly message: () => Message; readonly wireId?: Id | undefined } | undefined;
}

/** As the SDK's own requests go out. */
const PLAIN: CallForm = {};

type Meta = Readonly<Record<string, unknown>>;

/** A request of the client, from when it is made until its response is delivered. */
export class Call {
  readonly connection: Connection;
  /** As the SDK (or Valise itself) made it. */
  readonly request: Request;
  readonly era: Era;
  /** The names in which middlewares add to it: those that the request uses already, else those of its server. */
  readonly spelling: Spelling;
  readonly form: CallForm;
  /** The params that go out; those of a later round bring its answers. */
  params: Params | undefined;
  /** Top-level members that go out with it, as text. */
  top: Top | undefined;
  /** Its id on the wire, without {@link mark}. A middleware may change it before `next()`. */
  baseId: Id;
  /** Stands behind its id on the wire, if the server has had a request of that id already. */
  mark: string | undefined;
  /** Top-level members that came with the latest response, as text. */
  cameWith: Top | undefined;
  /** The kept session that the call belongs to, if a middleware says so; session-scope state follows it. */
  session: string | undefined;
  /** What the SDK gave its transport along with the request: headers, and the signal by which it hangs up. */
  options: unknown;
  /** What was known of the transport's session when the call left. */
  leftIn: object | undefined;
  /** True once nobody waits for its response any more. */
  cancelled = false;
  /** True once its answer is to come another way than on the stream that its request opened. */
  movedOn = false;
  /** A result that is known already: nothing is sent, and the middlewares see it as if it had come. */
  known: Result | undefined;
  /** Why it could not be delivered, if that is why `next()` has rejected. */
  undelivered: unknown;
  /** Resolves what the SDK waits for when it sends. */
  sent: () => void = () => {};
  #meta: Record<string, Meta | undefined> | undefined;
  #hints: HttpHints | undefined;
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

  /** The id that stands on the wire. */
  get wireId(): Id {
    return this.mark === undefined ? this.baseId : `${this.baseId}${this.mark}`;
  }

  /** True where the server has begun with it: it has asked something, and this brings the answer, or one was sent. */
  get hasBegun(): boolean {
    const { requestState, inputResponses } = this.params ?? {};
    const { answer } = this.form;
    return (
      this.movedOn ||
      (requestState ?? inputResponses ?? this.top?.dependent_responses ?? answer) !== undefined
    );
  }

  /** By which the SDK hangs up on 2026-07-28 over HTTP, in place of a cancellation. */
  get signal(): AbortSignal | undefined {
    return (this.options as { readonly requestSignal?: AbortSignal } | undefined)?.requestSignal;
  }

  /** True where nobody waits for its response any more, whichever way that was said. */
  get isGivenUp(): boolean {
    return this.cancelled || this.signal?.aborted === true;
  }

  /** Adds to the `_meta` that goes out, in place of what was added for the same reason before. */
  addMeta(reason: string, fragment: Meta | undefined): void {
    this.#meta ??= {};
    this.#meta[reason] = fragment;
  }

  /** Asks something of the HTTP request that will carry this call; without effect on other transports. */
  addHints(hints: HttpHints): void {
    this.#hints = this.#hints
      ? { ...this.#hints, ...hints, headers: { ...this.#hints.headers, ...hints.headers } }
      : hints;
  }

  get hints(): HttpHints | undefined {
    return this.#hints;
  }

  /** The message that goes out, with everything that was added. */
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

  /** Has `send` bring the call on its way, and waits for its response. Rejects if it cannot be delivered. */
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

  /** Its response has come, or stands in for one that cannot come any more. */
  settle(response: Response, cameWith?: Top): void {
    this.cameWith = cameWith;
    const { id } = this.request;
    this.#settle?.(response.id === id ? response : ({ ...response, id } as Response));
  }

  /** Nothing will come of it. */
  leave(error: unknown = NO_RESPONSE): void {
    this.#fail?.(error);
  }
}
