import { Course } from '../link/course.ts';
import type { Dispatch, Link, Passage } from '../link/instrument.ts';
import { type Answered, type Step, walk } from '../link/steps.ts';
import type { Top } from '../link/top.ts';
import { withMeta } from '../wire/copy.ts';
import { type Era, eraOf, type Meta, type Request, type Response } from '../wire/index.ts';
import { answerSpelling, type Spelling } from '../wire/spelling.ts';
import { callerOf, headerOf, type TellCaller } from './caller.ts';
import type { Ingress } from './ingress.ts';
import type { Peer } from './peer.ts';
import type { Principal } from './principal.ts';
import type { Caller } from './quota.ts';

/** What all exchanges on one link share. */
export interface Stage {
  /** The Valise that the link is of. */
  readonly owner: object;
  readonly link: Link;
  /** Whether the server has a handler for a method. */
  readonly handles: (method: string) => boolean;
  /** The `_meta` in the config of what a request is about. */
  readonly config: (request: Request) => Meta | undefined;
  /** Tells one caller from another, where the author does. */
  readonly tellCaller: TellCaller | undefined;
  /** Gives the request to the handler once more; see {@link Exchange.rerun}. */
  readonly again: (exchange: Exchange) => void;
}

/** What an exchange is made from. */
export interface ExchangeFacts {
  readonly request: Request;
  readonly top: Top | undefined;
  readonly extra: unknown;
  readonly ingress: Ingress | undefined;
  readonly peer: Peer;
  readonly principal: Principal | undefined;
  readonly transportSession: string | undefined;
}

/** A request from when it came until its response is sent. Handlers find it through {@link currentExchange}. */
export class Exchange {
  /** As it came, without top-level members. Parts may put another one in place before the handler sees it. */
  request: Request;
  readonly era: Era;
  /** The names in which the client is answered: those of its request, else those that it announced, else its era's. */
  readonly spelling: Spelling;
  /** Top-level members that came with it, as text. */
  readonly top: Top | undefined;
  /** What the transport said about the request: HTTP headers, verified auth, and so on. */
  readonly extra: unknown;
  /** What our HTTP edge knows of it, where it came through that. */
  readonly ingress: Ingress | undefined;
  readonly link: Link;
  /** What is known about the client. */
  readonly peer: Peer;
  /** Who asks, where auth has been verified. */
  readonly principal: Principal | undefined;
  /** The id of the transport's own session, where it has one. */
  readonly transportSession: string | undefined;
  /** What parts keep with the exchange, each in a `Slot` of its own. */
  kept: unknown[] | undefined;
  readonly #stage: Stage;
  #isAnswered = false;
  #run = 1;
  #meta: Readonly<Record<string, unknown>> | undefined;
  #lastStep: Step | undefined;
  #sent: ((response: Response) => void)[] | undefined;

  constructor(stage: Stage, facts: ExchangeFacts) {
    this.#stage = stage;
    this.link = stage.link;
    this.request = facts.request;
    this.era = eraOf(facts.request);
    this.spelling = answerSpelling(facts.request, this.era, facts.peer.capabilities);
    this.top = facts.top;
    this.extra = facts.extra;
    this.ingress = facts.ingress;
    this.peer = facts.peer;
    this.principal = facts.principal;
    this.transportSession = facts.transportSession;
  }

  /** The Valise that it is of: what others know nothing of. */
  get owner(): object {
    return this.#stage.owner;
  }

  /** Whose share of a limit it counts toward. */
  get caller(): Caller {
    const { principal, transportSession, extra } = this;
    const header = (name: string) => headerOf(extra, name);
    const address = this.ingress?.address;
    return callerOf({ principal, transportSession, address, header }, this.#stage.tellCaller);
  }

  get method(): string {
    return this.request.method;
  }

  /**
   * True where the server has a handler for the request. Where it has none there is nothing to prepare, and an answer
   * without waiting keeps the HTTP status that the SDK gives to unknown methods.
   */
  get isHandled(): boolean {
    return this.#stage.handles(this.request.method);
  }

  /** The `_meta` that the author gave in the config of the tool, prompt or resource that a request is about. */
  configOf(request: Request): Meta | undefined {
    return this.#stage.config(request);
  }

  /** Which run of the handler this is: 1, or more where it has started over. */
  get run(): number {
    return this.#run;
  }

  /** True once the handler has answered: what it does later cannot go with the response. */
  get isAnswered(): boolean {
    return this.#isAnswered;
  }

  /** Adds to the result's `_meta`. A JSON-RPC error carries none. */
  addMeta(fragment: Readonly<Record<string, unknown>> | undefined): void {
    if (fragment) this.#meta = this.#meta ? { ...this.#meta, ...fragment } : fragment;
  }

  /** Has the handler's response shown to `answered`; the one registered last sees it first. */
  whenAnswered(answered: Answered): void {
    this.#lastStep = { answered, before: this.#lastStep };
  }

  /** Calls `sent` once the response has been handed to the transport, or could not be. */
  whenSent(sent: (response: Response) => void): void {
    this.#sent ??= [];
    this.#sent.push(sent);
  }

  /** Tells that the response is out. Undefined where nobody wants to know. */
  get told(): ((response: Response) => void) | undefined {
    const sent = this.#sent;
    return (
      sent &&
      ((response) => {
        for (const tell of sent) tell(response);
      })
    );
  }

  /**
   * Starts over: the parts see the request again and the handler runs again. For a part that has kept the response
   * back because what the handler saw is no longer true.
   */
  rerun(): void {
    this.#run++;
    this.#meta = undefined;
    this.#lastStep = undefined;
    this.#isAnswered = false;
    this.#stage.again(this);
  }

  /** Runs the response through the steps and adds what they had to add. */
  answer(response: Response): Response | undefined | Promise<Response | undefined> {
    this.#isAnswered = true;
    const out = walk(this.#lastStep, response);
    return out instanceof Promise ? out.then((late) => this.#finish(late)) : this.#finish(out);
  }

  #finish(response: Response | undefined): Response | undefined {
    if (!this.#meta || !response || !('result' in response)) return response;
    const own = response.result._meta;
    return { ...response, result: withMeta(response.result, own ? { ...own, ...this.#meta } : this.#meta) };
  }
}

const current = new Course<Exchange>();

/** The exchange whose handler is running, at any depth of calls: that of a Valise, or the one on a link. */
export function currentExchange(of: object): Exchange | undefined {
  const exchange = current.current;
  return exchange && (exchange.owner === of || exchange.link === of) ? exchange : undefined;
}

/** The exchange whose handler is running, of any Valise. */
export function runningExchange(): Exchange | undefined {
  return current.current;
}

/** Runs `work` as part of an exchange. */
export function runIn<T>(exchange: Exchange, work: () => T): T {
  return current.run(exchange, work);
}

/**
 * Runs `work` as part of no exchange. What Node makes in order to send a response lives longer than the request, and holds
 * on to the course that it was made in: all of the request would stay in memory with it.
 */
function outsideExchange<T>(work: () => T): T {
  return current.run(undefined, work);
}

/** Has the handler work on the request of an exchange. */
export function admitted(exchange: Exchange): Passage {
  return { message: exchange.request, run: (deliver) => runIn(exchange, deliver) };
}

/** What other transports make in order to send a response does not outlive it. */
export function sending(
  message: Response | undefined,
  told: Exchange['told'],
  isOverHttp: boolean,
): Dispatch {
  if (!message) return undefined;
  const go = (send: () => Promise<void>) => (isOverHttp ? outsideExchange(send) : send());
  return { message, run: (send) => (told ? go(send).finally(() => told(message)) : go(send)) };
}
