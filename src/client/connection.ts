import { randomBytes } from 'node:crypto';
import { ValiseError } from '../errors.ts';
import { presentPlace, runAt } from '../link/course.ts';
import { currentErrand, outsideErrand, withErrand } from '../link/edge-fetch.ts';
import { type Dispatch, type Hooks, instrument, type Link, type Passage } from '../link/instrument.ts';
import { type Top, takeTop } from '../link/top.ts';
import type { TransportLike } from '../link/transport.ts';
import { steady } from '../wire/copy.ts';
import {
  type Era,
  type Families,
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
} from '../wire/index.ts';
import { Account } from './account.ts';
import { Announcer } from './announcer.ts';
import { Ask } from './ask.ts';
import { Asks } from './asks.ts';
import { Call } from './call.ts';
import { CallsUnderWay } from './calls-under-way.ts';
import { Departures } from './departures.ts';
import { type OwnRequestOptions, OwnRequests } from './own-requests.ts';
import { askParts, type ClientPart } from './part.ts';
import { failureOf } from './request-error.ts';
import { ServerFacts } from './server-facts.ts';
import type { Target } from './target.ts';

/** How many requests of the server are worked on at a time. */
const MAX_ASKS = 1000;

type Send = () => Promise<void>;

/** Settings of a connection. */
export interface ConnectionOptions {
  readonly owner: object;
  readonly target: Target;
  readonly principal: string;
  /** Nobody's in particular if it is left out. */
  readonly account?: Account | undefined;
  readonly parts: readonly ClientPart[];
}

/** One client on one transport: the way of each message through the parts. */
export class Connection implements Hooks {
  readonly target: Target;
  /** Whose state this is; `''` where the host does not tell users apart. */
  readonly principal: string;
  /** The account at the server that it acts for. */
  readonly account: Account;
  readonly server = new ServerFacts();
  /** Sets its calls apart from those of other connections and earlier processes, which have the same numbers. */
  readonly epoch = randomBytes(6).toString('base64url');
  readonly link: Link;
  readonly #parts: readonly ClientPart[];
  readonly #inwards: readonly ClientPart[];
  readonly #announcer: Announcer;
  readonly #departures: Departures;
  /** The calls that wait for their response. */
  readonly calls = new CallsUnderWay();
  readonly #asks = new Asks((message) => this.link.deliver(message));
  readonly #own = new OwnRequests(
    (request) => this.link.transport.send(request),
    () => this.#announcer.envelope,
    (id) => this.calls.cancel(id),
  );
  #era: Era | undefined;

  constructor(transport: TransportLike, { owner, target, principal, account, parts }: ConnectionOptions) {
    this.target = target;
    this.principal = principal;
    this.account = account ?? new Account();
    this.#parts = parts;
    this.#inwards = [...parts].reverse();
    this.#departures = new Departures(this, parts);
    this.link = instrument(transport, owner, this);
    this.#announcer = new Announcer(
      Object.assign({}, ...parts.map((part) => part.announce?.(this))) as Families,
    );
  }

  /** The era of the latest request, or of the next where there has been none. */
  get era(): Era {
    return this.#era ?? (this.#announcer.envelope ? 'modern' : 'legacy');
  }

  /** True where a server may ask the client something in the course of a call: most of what rounds need is for these. */
  get isAskable(): boolean {
    return this.#announcer.isAskable;
  }

  /** Says whose connection it is. */
  speakFor(client: object): void {
    this.#announcer.speakFor(client);
  }

  /** Lets every part load what it needs, before the first message. */
  async open(): Promise<void> {
    this.account.begin();
    for (const part of this.#parts) await part.opening?.(this);
  }

  /** Sends a request of Valise's own, on the same way as the SDK's. */
  request(method: string, params: Params = {}, options: OwnRequestOptions = {}): Promise<Result> {
    return this.#own.request(method, params, options);
  }

  /** Hands a request to the client's own handlers, as if the server had sent it, and waits for what they answer. */
  askClient(method: string, params: Params | undefined, signal?: AbortSignal): Promise<Response> {
    const request = { jsonrpc: '2.0' as const, id: this.#own.newId(), method, ...(params && { params }) };
    return this.#asks.askClient(this, request, signal);
  }

  /** Tells the client's handler that nobody waits for its answer any more; false where it has answered. */
  withdraw(ask: Ask): boolean {
    return this.#asks.withdraw(ask);
  }

  /** Ends a call with an error of ours, as if the server had answered it. */
  fail(call: Call, code: number, message: string, data?: object): void {
    this.leave(call);
    const error = { code, message, ...(data && { data }) };
    const passed = this.#settle(call, { jsonrpc: '2.0', id: call.request.id, error });
    if (passed) runAt(call.place, () => this.link.deliver(passed));
  }

  /** Ends a request of Valise's own that nothing will come of. */
  giveUp(call: Call, error: Error): void {
    this.leave(call);
    this.#own.giveUp(call.request.id, error);
  }

  /** No answer of the server will end the call: whoever waits for its end hears of it so. */
  leave(call: Call): void {
    this.calls.drop(call);
    call.undelivered?.();
  }

  /** Has the parts put right why what belongs to a call could not be delivered; see {@link Departures.putRight}. */
  putRight(call: Call, error: unknown): Promise<boolean> {
    return this.#departures.putRight(call, error);
  }

  /** Sends a call once more; see {@link Departures.again}. */
  again(call: Call, params: Params | undefined, mark: string, top?: Top): Promise<void> {
    return this.#departures.again(call, params, mark, top);
  }

  outbound(given: Message, options?: unknown): Dispatch | Promise<Dispatch> {
    const message = steady(given);
    if (isRequest(message)) return this.#requesting(message, options);
    if (isNotification(message)) {
      return this.#parts.some((part) => part.notifying?.(message, this))
        ? undefined
        : this.#cancelling(message);
    }
    const ask = this.#asks.take(message.id);
    if (!ask) return message;
    const answer = ask.answer(message);
    const { errand, undelivered } = ask;
    if (!answer || (!errand && !undelivered)) return answer;
    return {
      message: answer,
      run: (send) => this.#answering(ask, errand ? () => withErrand(errand, send) : send),
    };
  }

  async #answering({ rescue, undelivered }: Ask, send: Send): Promise<void> {
    try {
      await send().catch(async (error: unknown) => {
        if (!(await rescue?.(error))) throw error;
        await send();
      });
    } catch (error) {
      undelivered?.(error);
      throw error;
    }
  }

  #requesting(request: Request, options: unknown): Dispatch | Promise<Dispatch> {
    const remembered = this.target.kind !== 'http' || this.link.transport.sessionId !== undefined;
    const announced = this.#announcer.announce(request, remembered);
    const call = new Call(this, announced, presentPlace(), this.#own.formOf(request));
    call.options = options;
    this.#era = call.era;
    return this.#departures.begin(call);
  }

  /** Takes a message as if it had just come over the transport. A promise where it does not pass at once. */
  arrive(message: Message): void | Promise<void> {
    const deliver = (passage: Passage): void => {
      if (passage && 'run' in passage) passage.run(() => this.link.deliver(passage.message));
      else if (passage) this.link.deliver(passage);
    };
    const passage = this.inbound(message);
    return passage instanceof Promise
      ? passage.then(deliver, (error: Error) => this.link.transport.onerror?.(error))
      : deliver(passage);
  }

  /** A cancellation names the id that the SDK knows; the server knows the one on the wire, or none where nothing was sent. */
  #cancelling(message: Notification): Message | undefined {
    if (message.method !== 'notifications/cancelled') return message;
    const call = this.calls.cancel(message.params?.['requestId']);
    if (call && this.calls.get(call.wireId) !== call) return undefined;
    if (!call || call.wireId === message.params?.['requestId']) return message;
    return { ...message, params: { ...message.params, requestId: call.wireId } };
  }

  inbound(arrived: Message): Passage | Promise<Passage> {
    const { message, top } = takeTop(arrived);
    if (isRequest(message)) {
      if (this.#asks.size >= MAX_ASKS) return this.#refuse(message);
      const ask = new Ask(this, message, top);
      this.#asks.add(ask);
      // A handler may send requests of its own.
      const passage = currentErrand() ? { message, run: outsideErrand } : message;
      const shown = (wanted: boolean): Passage => {
        if (wanted) return passage;
        this.#asks.take(message.id);
        return undefined;
      };
      return askParts(this.#inwards, ask)?.then(shown) ?? passage;
    }
    if (isNotification(message)) {
      // The SDKs do not answer what is cancelled.
      if (message.method === 'notifications/cancelled') this.#asks.take(message.params?.['requestId']);
      return this.#inwards.some((part) => part.notified?.(message, this)) ? undefined : message;
    }
    const call = this.calls.take(message);
    if (!call) return message;
    if ('result' in message) this.server.hear(message.result);
    const answer = call.answer(message, top);
    return answer instanceof Promise
      ? answer.then(
          (late) => placed(call, this.#settle(call, late)),
          (error: unknown) => placed(call, this.#settle(call, failureOf(call.request, error))),
        )
      : placed(call, this.#settle(call, answer));
  }

  #settle(call: Call, response: Response | undefined): Message | undefined {
    if (!response) return undefined;
    if (INTRODUCTIONS.has(call.method) && 'result' in response) {
      this.server.introduce(response.result, call.known === undefined);
      this.#announcer.hear(call.method, response.result);
    }
    return this.#own.settle(call.request.id, response) ? undefined : response;
  }

  /** A server that asks without end gets an error, and the client's handlers see nothing of it. */
  #refuse({ id }: Request): undefined {
    const { transport } = this.link;
    const what = `The server has asked more than ${MAX_ASKS} things at a time, and gets an error for the rest.`;
    transport.onerror?.(
      new ValiseError('too-many-requests', what, { next: 'Close the connection if it goes on.' }),
    );
    const error = { code: INTERNAL_ERROR, message: 'Too many requests at a time' };
    this.link.send({ jsonrpc: '2.0', id, error }).catch(() => undefined);
    return undefined;
  }

  closed(): void {
    for (const part of this.#inwards) part.closed?.(this);
    this.#own.closed();
    this.calls.closed();
    this.#asks.closed();
  }
}

/** The SDKs go on with a call where its response is delivered: an answer to a round, say, is sent from there. */
function placed({ place }: Call, message: Message | undefined): Passage {
  if (!message || place === presentPlace()) return message;
  return { message, run: (deliver) => runAt(place, deliver) };
}
