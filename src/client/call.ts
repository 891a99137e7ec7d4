import type { Place } from '../link/course.ts';
import type { Errand } from '../link/edge-fetch.ts';
import { type Answered, type Step, walk } from '../link/steps.ts';
import { raise, type Top } from '../link/top.ts';
import { withMeta, withParams } from '../wire/copy.ts';
import {
  type Era,
  eraOf,
  type Id,
  type Message,
  type Request,
  type Response,
  type Result,
  type ResultResponse,
} from '../wire/index.ts';
import { type Spelling, spellingOf } from '../wire/spelling.ts';
import type { Connection } from './connection.ts';
import type { ClientPart } from './part.ts';

/** What goes out of a call besides its request, or in its place. */
export interface CallForm {
  /** Top-level members that go out with it, as text. */
  readonly top?: Top | undefined;
  /**
   * The server has the request already, from an earlier time: all that goes out is the answer to its question, made once
   * its turn has come.
   */
  readonly answer?: { readonly message: () => Message; readonly wireId?: Id | undefined } | undefined;
  /** Stands behind its id on the wire, where the server has had a request of that id already. */
  readonly mark?: string | undefined;
}

/** As the SDK's own requests go out. */
const PLAIN: CallForm = {};

/** A request of the client on its way out and, until its response has come, under way. */
export class Call {
  readonly connection: Connection;
  /** As the SDK (or Valise itself) made it. */
  readonly request: Request;
  readonly era: Era;
  /** The names in which parts add to it: those that the request uses already, else those of its server. */
  readonly spelling: Spelling;
  /** The id that stands on the wire; parts may change it before the request is sent. */
  wireId: Id;
  readonly form: CallForm;
  /** The kept session that the call belongs to, where a part says so; session-scope state follows it. */
  session: string | undefined;
  /** What the SDK gave its transport along with the request: headers, and the signal by which it hangs up. */
  options: unknown;
  /** What was known of the transport's session when the call left. */
  leftIn: object | undefined;
  /** True once nobody waits for its response any more. */
  cancelled = false;
  /** True once its answer is to come another way than on the stream that its request opened. */
  movedOn = false;
  /** Hears that it could not be delivered. */
  undelivered: (() => void) | undefined;
  /** Where it was made: what comes of its response belongs there, whatever brought it in. */
  readonly place: Place | undefined;
  /** The parts that may still rescue it; all where undefined. */
  rescuers: readonly ClientPart[] | undefined;
  /** The call that it is sent in place of, since that one could not be delivered. */
  instead: Call | undefined;
  #meta: Record<string, unknown> | undefined;
  #errand: Errand | undefined;
  #known: Result | undefined;
  #lastStep: Step | undefined;

  constructor(connection: Connection, request: Request, place: Place | undefined, form: CallForm = PLAIN) {
    this.connection = connection;
    this.request = request;
    this.place = place;
    this.form = form;
    this.era = eraOf(request);
    this.spelling = spellingOf(request, connection.server.spelling(this.era));
    this.wireId = form.answer?.wireId ?? request.id;
  }

  get method(): string {
    return this.request.method;
  }

  /** True where the server has begun with it: it has asked something, and this brings the answer, or one was sent. */
  get hasBegun(): boolean {
    const { requestState, inputResponses } = this.request.params ?? {};
    const { top, answer } = this.form;
    return (
      this.movedOn || (requestState ?? inputResponses ?? top?.dependent_responses ?? answer) !== undefined
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

  /** Adds to the request's `_meta`. */
  addMeta(fragment: Readonly<Record<string, unknown>> | undefined): void {
    if (fragment) this.#meta = this.#meta ? Object.assign(this.#meta, fragment) : { ...fragment };
  }

  /** Asks something of the HTTP request that will carry this call; without effect on other transports. */
  addErrand(errand: Errand): void {
    this.#errand = this.#errand
      ? { ...this.#errand, ...errand, headers: { ...this.#errand.headers, ...errand.headers } }
      : errand;
  }

  get errand(): Errand | undefined {
    return this.#errand;
  }

  /** Answers the call with a result that is known already: nothing is sent, and the steps see it as if it had come. */
  answerWith(result: Result): void {
    this.#known = result;
  }

  get known(): Result | undefined {
    return this.#known;
  }

  /** Has the response shown to `answered`; the one registered last sees it first. */
  whenAnswered(answered: Answered): void {
    this.#lastStep = { answered, before: this.#lastStep };
  }

  /** The request as it goes out, with everything that parts added. */
  outgoing(): Message {
    const { top, answer } = this.form;
    if (answer) return answer.message();
    const request = this.#withMeta();
    return top ? raise(request, top) : request;
  }

  #withMeta(): Request {
    const { request } = this;
    if (!this.#meta) return this.wireId === request.id ? request : { ...request, id: this.wireId };
    const own = request.params?._meta;
    const params = withMeta(request.params, own ? { ...own, ...this.#meta } : this.#meta);
    return { ...withParams(request, params), id: this.wireId };
  }

  /** Runs the response through the steps, with the id that the sender of the request knows. */
  answer(response: Response, top: Top | undefined): Response | undefined | Promise<Response | undefined> {
    const own =
      response.id === this.request.id ? response : ({ ...response, id: this.request.id } as ResultResponse);
    return walk(this.#lastStep, own, top);
  }
}
