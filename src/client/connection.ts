import { presentPlace, runAt } from '../link/course.ts';
import { currentErrand, outsideErrand, withErrand } from '../link/edge-fetch.ts';
import { type Dispatch, type Hooks, instrument, type Link, type Passage } from '../link/instrument.ts';
import { type Top, takeTop } from '../link/top.ts';
import type { TransportLike } from '../link/transport.ts';
import {
  type Era,
  type Families,
  type Id,
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
import { Announcer } from './announcer.ts';
import { Ask } from './ask.ts';
import { Call } from './call.ts';
import { CallsUnderWay } from './calls-under-way.ts';
import { type OwnRequestOptions, OwnRequests } from './own-requests.ts';
import { askParts, type ClientPart } from './part.ts';
import { ServerFacts } from './server-facts.ts';
import type { Target } from './target.ts';

type Send = () => Promise<void>;

/** Settings of a connection. */
export interface ConnectionOptions {
  readonly owner: object;
  readonly target: Target;
  readonly principal: string;
  readonly parts: readonly ClientPart[];
}

/** One client on one transport: the way of each message through the parts. */
export class Connection implements Hooks {
  readonly target: Target;
  /** Whose state this is; `''` where the host does not tell users apart. */
  readonly principal: string;
  readonly server = new ServerFacts();
  readonly link: Link;
  readonly #parts: readonly ClientPart[];
  readonly #inwards: readonly ClientPart[];
  readonly #rescuers: readonly ClientPart[];
  readonly #announcer: Announcer;
  /** The calls that wait for their response. */
  readonly calls = new CallsUnderWay();
  readonly #asks = new Map<Id, Ask>();
  readonly #own = new OwnRequests(
    (request) => this.link.transport.send(request),
    () => this.#announcer.envelope,
  );
  #era: Era | undefined;

  constructor(transport: TransportLike, { owner, target, principal, parts }: ConnectionOptions) {
    this.target = target;
    this.principal = principal;
    this.#parts = parts;
    this.#inwards = [...parts].reverse();
    this.#rescuers = parts.filter((part) => part.undelivered);
    this.link = instrument(transport, owner, this);
    this.#announcer = new Announcer(
      Object.assign({}, ...parts.map((part) => part.announce?.(this))) as Families,
    );
  }

  /** The era of the latest request, or of the next where there has been none. */
  get era(): Era {
    return this.#era ?? (this.#announcer.envelope ? 'modern' : 'legacy');
  }

  /** Says whose connection it is. */
  speakFor(client: object): void {
    this.#announcer.speakFor(client);
  }

  /** Lets every part load what it needs, before the first message. */
  async open(): Promise<void> {
    for (const part of this.#parts) await part.opening?.(this);
  }

  /** Sends a request of Valise's own, on the same way as the SDK's. */
  request(method: string, params: Params = {}, options: OwnRequestOptions = {}): Promise<Result> {
    return this.#own.request(method, params, options);
  }

  /** Hands a request to the client's own handlers, as if the server had sent it, and waits for what they answer. */
  askClient(method: string, params: Params | undefined, signal?: AbortSignal): Promise<Response> {
    const id = this.#own.newId();
    const request = { jsonrpc: '2.0' as const, id, method, ...(params && { params }) };
    return new Promise((resolve) => {
      const ask = new Ask(this, request, undefined);
      ask.whenAnswered((response) => {
        resolve(response);
        return undefined;
      });
      this.#asks.set(id, ask);
      const withdraw = (): void => {
        if (this.withdraw(ask))
          resolve({ jsonrpc: '2.0', id, error: { code: -32000, message: 'The call was cancelled.' } });
      };
      signal?.addEventListener('abort', withdraw, { once: true });
      outsideErrand(() => this.link.deliver(request));
    });
  }

  /** Tells the client's handler that nobody waits for its answer any more; false where it has answered. */
  withdraw({ request: { id } }: Ask): boolean {
    if (!this.#asks.delete(id)) return false;
    this.link.deliver({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: id } });
    return true;
  }

  /** Ends a call with an error of ours, as if the server had answered it. */
  fail(call: Call, code: number, message: string, data?: object): void {
    this.calls.drop(call);
    const error = { code, message, ...(data && { data }) };
    const passed = this.#settle(call, { jsonrpc: '2.0', id: call.request.id, error });
    if (passed) runAt(call.place, () => this.link.deliver(passed));
  }

  /** Ends a request of Valise's own that nothing will come of. */
  giveUp(call: Call, error: Error): void {
    this.calls.drop(call);
    this.#own.giveUp(call.request.id, error);
  }

  /**
   * Sends a call once more, with other params and another id on the wire. The parts see it as they saw the first, and
   * its response goes to whoever waits for the first one's.
   */
  async again(call: Call, params: Params | undefined, mark: string, top?: Top): Promise<void> {
    const next = new Call(this, { ...call.request, params }, call.place, { top });
    for (const part of this.#parts) await part.outbound?.(next);
    next.wireId = `${next.wireId}${mark}`;
    const out = this.#dispatch(next);
    if (out === undefined) return;
    await ('run' in out ? out.run(() => this.link.send(out.message)) : this.link.send(out));
  }

  outbound(message: Message): Dispatch | Promise<Dispatch> {
    if (isRequest(message)) return this.#requesting(message);
    if (isNotification(message)) {
      return this.#parts.some((part) => part.notifying?.(message, this))
        ? undefined
        : this.#cancelling(message);
    }
    const ask = message.id === undefined || message.id === null ? undefined : this.#asks.get(message.id);
    if (!ask) return message;
    this.#asks.delete(ask.request.id);
    const answer = ask.answer(message);
    const { errand, undelivered } = ask;
    if (!answer || (!errand && !undelivered)) return answer;
    return {
      message: answer,
      run: (send) => this.#answering(ask, errand ? () => withErrand(errand, send) : send),
    };
  }

  async #answering({ undelivered }: Ask, send: Send): Promise<void> {
    try {
      await send();
    } catch (error) {
      undelivered?.(error);
      throw error;
    }
  }

  #requesting(request: Request): Dispatch | Promise<Dispatch> {
    const remembered = this.target.kind !== 'http' || this.link.transport.sessionId !== undefined;
    const announced = this.#announcer.announce(request, remembered);
    const call = new Call(this, announced, presentPlace(), this.#own.formOf(request));
    this.#era = call.era;
    for (let at = 0; at < this.#parts.length; at++) {
      const step = this.#parts[at]?.outbound?.(call);
      if (step instanceof Promise) return this.#late(call, step, at + 1);
    }
    return this.#dispatch(call);
  }

  async #late(call: Call, step: Promise<void>, from: number): Promise<Dispatch> {
    await step;
    for (let at = from; at < this.#parts.length; at++) await this.#parts[at]?.outbound?.(call);
    return this.#dispatch(call);
  }

  #dispatch(call: Call): Dispatch {
    this.calls.add(call);
    const { errand, known } = call;
    if (known) {
      const response: Response = { jsonrpc: '2.0', id: call.wireId, result: known };
      // Not before the sender has gone on: the SDKs wait for an answer only once `send` has returned.
      queueMicrotask(() => this.arrive(response));
      return undefined;
    }
    const message = call.outgoing();
    if (this.target.kind === 'http' || call.undelivered)
      return { message, run: (send) => this.#rescue(call, message, send) };
    return errand ? { message, run: (send) => withErrand(errand, send) } : message;
  }

  /** Sends an undelivered call once more where a part has put right why; each part once. Transports other than HTTP close. */
  #rescue(call: Call, message: Message, send: (message: Message) => Promise<void>): Promise<void> {
    const { errand } = call;
    const sending = errand ? withErrand(errand, () => send(message)) : send(message);
    return sending.catch((error: unknown) => this.#rescued(call, error, send));
  }

  async #rescued(call: Call, error: unknown, send: (message: Message) => Promise<void>): Promise<void> {
    call.undelivered?.();
    const left = call.rescuers ?? this.#rescuers;
    for (const part of left) {
      if (!(await part.undelivered?.(call, error)) || call.cancelled) continue;
      this.calls.drop(call);
      const next = new Call(this, call.request, call.place, call.form);
      next.rescuers = left.filter((other) => other !== part);
      for (const each of this.#parts) await each.outbound?.(next);
      this.calls.add(next);
      return this.#rescue(next, next.outgoing(), send);
    }
    this.calls.drop(call);
    throw error;
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

  /** A cancellation names the id that the SDK knows; the server knows the one on the wire. */
  #cancelling(message: Notification): Message {
    if (message.method !== 'notifications/cancelled') return message;
    const wireId = this.calls.cancel(message.params?.['requestId']);
    if (wireId === undefined || wireId === message.params?.['requestId']) return message;
    return { ...message, params: { ...message.params, requestId: wireId } };
  }

  inbound(arrived: Message): Passage | Promise<Passage> {
    const { message, top } = takeTop(arrived);
    if (isRequest(message)) {
      const ask = new Ask(this, message, top);
      this.#asks.set(message.id, ask);
      // A handler may send requests of its own.
      const passage = currentErrand() ? { message, run: outsideErrand } : message;
      const shown = (wanted: boolean): Passage => {
        if (wanted) return passage;
        this.#asks.delete(message.id);
        return undefined;
      };
      return askParts(this.#inwards, ask)?.then(shown) ?? passage;
    }
    if (isNotification(message)) {
      // The SDKs do not answer what is cancelled.
      if (message.method === 'notifications/cancelled')
        this.#asks.delete(message.params?.['requestId'] as Id);
      return this.#inwards.some((part) => part.notified?.(message, this)) ? undefined : message;
    }
    const call = this.calls.take(message);
    if (!call) return message;
    const answer = call.answer(message, top);
    return answer instanceof Promise
      ? answer.then((late) => placed(call, this.#settle(call, late)))
      : placed(call, this.#settle(call, answer));
  }

  #settle(call: Call, response: Response | undefined): Message | undefined {
    if (!response) return undefined;
    if (INTRODUCTIONS.has(call.method) && 'result' in response) {
      this.server.introduce(response.result);
      this.#announcer.hear(call.method, response.result);
    }
    return this.#own.settle(call.request.id, response) ? undefined : response;
  }

  closed(): void {
    for (const part of this.#inwards) part.closed?.(this);
    this.#own.closed();
    this.calls.closed();
    this.#asks.clear();
  }
}

/** The SDKs go on with a call where its response is delivered: an answer to a round, say, is sent from there. */
function placed({ place }: Call, message: Message | undefined): Passage {
  if (!message || place === presentPlace()) return message;
  return { message, run: (deliver) => runAt(place, deliver) };
}
