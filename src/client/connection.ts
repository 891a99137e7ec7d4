import { ValiseError } from '../errors.ts';
import { withErrand } from '../link/edge-fetch.ts';
import { type Dispatch, instrument, type Link, type Passage } from '../link/instrument.ts';
import { takeTop } from '../link/top.ts';
import type { TransportLike } from '../link/transport.ts';
import {
  type Era,
  type Families,
  type Id,
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
import type { ClientPart } from './part.ts';
import { ServerFacts } from './server-facts.ts';
import type { Target } from './target.ts';

/** What the server of a connection answered with an error. */
export class RequestError extends ValiseError {
  readonly rpcCode: number;
  readonly data: unknown;

  constructor(
    method: string,
    { code, message, data }: { readonly code: number; readonly message: string; readonly data?: unknown },
  ) {
    super('request-failed', `The server answered ${method} with error ${code}: ${message}.`);
    this.rpcCode = code;
    this.data = data;
  }
}

type Send = () => Promise<void>;

/** Settings of a connection. */
export interface ConnectionOptions {
  readonly owner: object;
  readonly target: Target;
  readonly principal: string;
  readonly parts: readonly ClientPart[];
}

/** One client on one transport: the way of each message through the parts. */
export class Connection {
  readonly target: Target;
  /** Whose state this is; `''` where the host does not tell users apart. */
  readonly principal: string;
  readonly server = new ServerFacts();
  readonly link: Link;
  readonly #parts: readonly ClientPart[];
  readonly #inwards: readonly ClientPart[];
  readonly #rescuers: readonly ClientPart[];
  readonly #announcer: Announcer;
  readonly #calls = new Map<Id, Call>();
  readonly #asks = new Map<Id, Ask>();
  readonly #own = new Map<Id, (response: Response) => void>();
  #era: Era = 'legacy';
  #count = 0;

  constructor(transport: TransportLike, { owner, target, principal, parts }: ConnectionOptions) {
    this.target = target;
    this.principal = principal;
    this.#parts = parts;
    this.#inwards = [...parts].reverse();
    this.#rescuers = parts.filter((part) => part.undelivered);
    this.link = instrument(transport, owner, {
      inbound: (message) => this.#inbound(message),
      outbound: (message) => this.#outbound(message),
      closed: () => this.#closed(),
    });
    this.#announcer = new Announcer(
      Object.assign({}, ...parts.map((part) => part.announce?.(this))) as Families,
    );
  }

  /** The era of the latest request. */
  get era(): Era {
    return this.#era;
  }

  /** Lets every part load what it needs, before the first message. */
  async open(): Promise<void> {
    for (const part of this.#parts) await part.opening?.(this);
  }

  /** Sends a request of Valise's own, on the same way as the SDK's. */
  request(
    method: string,
    params: Params = {},
    { timeout = 60 }: { readonly timeout?: number } = {},
  ): Promise<Result> {
    const id = `valise:${++this.#count}`;
    const { envelope } = this.#announcer;
    const meta = envelope ? { ...envelope, ...params._meta } : params._meta;
    const request: Request = {
      jsonrpc: '2.0',
      id,
      method,
      params: meta ? { ...params, _meta: meta } : params,
    };
    return new Promise<Result>((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#own.delete(id);
        reject(
          new ValiseError('request-timeout', `The server did not answer ${method} within ${timeout} s.`, {
            next: 'Try again, or give a longer timeout.',
          }),
        );
      }, timeout * 1000);
      this.#own.set(id, (response) => {
        clearTimeout(timer);
        if ('result' in response) resolve(response.result);
        else reject(new RequestError(method, response.error));
      });
      this.link.transport.send(request).catch((error: unknown) => {
        clearTimeout(timer);
        this.#own.delete(id);
        reject(error instanceof Error ? error : new Error(String(error)));
      });
    });
  }

  /** Hands a request to the client's own handlers, as if the server had sent it, and waits for what they answer. */
  askClient(method: string, params: Params | undefined): Promise<Response> {
    const id = `valise:${++this.#count}`;
    const request = { jsonrpc: '2.0' as const, id, method, ...(params && { params }) };
    return new Promise((resolve) => {
      const ask = new Ask(this, request, undefined);
      ask.whenAnswered((response) => {
        resolve(response);
        return undefined;
      });
      this.#asks.set(id, ask);
      this.link.deliver(request);
    });
  }

  /** Sends a call once more, with other params and a new id; its response goes the way of the first one. */
  resend(call: Call, request: Message, wireId: Id): Promise<void> {
    this.#calls.set(wireId, call);
    const send = (): Promise<void> => this.link.send(request);
    return call.errand ? withErrand(call.errand, send) : send();
  }

  #outbound(message: Message): Dispatch | Promise<Dispatch> {
    if (isRequest(message)) return this.#requesting(message);
    if (isNotification(message)) {
      return this.#parts.some((part) => part.notifying?.(message, this))
        ? undefined
        : this.#cancelling(message);
    }
    const ask = message.id === undefined || message.id === null ? undefined : this.#asks.get(message.id);
    if (!ask) return message;
    this.#asks.delete(ask.request.id);
    return ask.answer(message);
  }

  #requesting(request: Request): Dispatch | Promise<Dispatch> {
    const remembered = this.target.kind !== 'http' || this.link.transport.sessionId !== undefined;
    const call = new Call(this, this.#announcer.announce(request, remembered));
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
    this.#calls.set(call.wireId, call);
    const { errand, known } = call;
    if (known) {
      const response: Response = { jsonrpc: '2.0', id: call.wireId, result: known };
      // Not before the sender has gone on: the SDKs wait for an answer only once `send` has returned.
      queueMicrotask(() => this.#arrive(response));
      return undefined;
    }
    const message = call.outgoing();
    const run = errand ? (send: Send) => withErrand(errand, send) : undefined;
    if (!this.#rescuers.length) return run ? { message, run } : message;
    return { message, run: (send) => this.#rescue(call, run ? () => run(send) : send) };
  }

  /** A call that was not delivered is sent once more where a part has put right what was in its way. */
  async #rescue(call: Call, send: Send): Promise<void> {
    try {
      await send();
    } catch (error) {
      for (const part of this.#rescuers) if (await part.undelivered?.(call, error)) return send();
      this.#calls.delete(call.wireId);
      throw error;
    }
  }

  /** Takes a message as if it had just come over the transport. */
  #arrive(message: Message): void {
    const deliver = (passage: Passage): void => {
      if (passage && !('run' in passage)) this.link.deliver(passage);
    };
    const passage = this.#inbound(message);
    if (passage instanceof Promise)
      passage.then(deliver, (error: Error) => this.link.transport.onerror?.(error));
    else deliver(passage);
  }

  /** A cancellation names the id that the SDK knows; the server knows the one on the wire. */
  #cancelling(message: Notification): Message {
    if (message.method !== 'notifications/cancelled') return message;
    for (const [wireId, call] of this.#calls) {
      if (call.request.id !== message.params?.['requestId'] || wireId === call.request.id) continue;
      return { ...message, params: { ...message.params, requestId: wireId } };
    }
    return message;
  }

  #inbound(arrived: Message): Passage | Promise<Passage> {
    const { message, top } = takeTop(arrived);
    if (isRequest(message)) {
      const ask = new Ask(this, message, top);
      for (const part of this.#inwards) part.asked?.(ask);
      this.#asks.set(message.id, ask);
      return message;
    }
    if (isNotification(message))
      return this.#inwards.some((part) => part.notified?.(message, this)) ? undefined : message;
    const call = message.id === undefined || message.id === null ? undefined : this.#calls.get(message.id);
    if (!call) return message;
    this.#calls.delete(message.id as Id);
    const answer = call.answer(message, top);
    return answer instanceof Promise
      ? answer.then((late) => this.#settle(call, late))
      : this.#settle(call, answer);
  }

  #settle(call: Call, response: Response | undefined): Message | undefined {
    if (!response) return undefined;
    this.server.learn(call.method, response);
    if (call.method === 'initialize' && 'result' in response)
      this.#announcer.initialized(response.result, this.server.families);
    const own = this.#own.get(call.request.id);
    if (!own) return response;
    this.#own.delete(call.request.id);
    own(response);
    return undefined;
  }

  #closed(): void {
    for (const part of this.#inwards) part.closed?.(this);
    const gone = new ValiseError('not-connected', 'The connection closed before the answer came.', {
      next: 'Connect again.',
    });
    for (const settle of this.#own.values())
      settle({ jsonrpc: '2.0', error: { code: -32000, message: gone.message } });
    this.#own.clear();
    this.#calls.clear();
    this.#asks.clear();
  }
}
