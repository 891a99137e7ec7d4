import { randomBytes } from 'node:crypto';
import type { JsonObject } from '../json.ts';
import { lazy } from '../lazy.ts';
import { tooLargeRequest } from '../link/edge-stdio.ts';
import { type Dispatch, type Hooks, instrument, type Link, type Passage } from '../link/instrument.ts';
import { type Top, takeTop } from '../link/top.ts';
import type { TransportLike } from '../link/transport.ts';
import { UnderWay } from '../link/under-way.ts';
import {
  announceServer,
  type Families,
  type Id,
  INTRODUCTIONS,
  isNotification,
  isRequest,
  type Message,
  type Meta,
  mergeCapabilities,
  type Notification,
  type Request,
  type Response,
} from '../wire/index.ts';
import { complete } from '../wire/session-methods.ts';
import type { TellCaller } from './caller.ts';
import { configOf } from './config.ts';
import { admitted, currentExchange, Exchange, type Stage, sending } from './exchange.ts';
import { type Fault, MAX_UNDER_WAY, tooManyRequests } from './fault.ts';
import { handles } from './handles.ts';
import { takeIngress } from './ingress.ts';
import { isHttp } from './over-http.ts';
import type { Later, Reply, ServerPart } from './part.ts';
import { type Peer, peerOf, STRANGER, withoutIntroduction } from './peer.ts';
import { authInfoOf, type Principal, type TellPrincipal } from './principal.ts';
import type { ServerLike } from './server-like.ts';

/** What all links of all servers of one Valise share. */
export interface Attachment {
  readonly owner: object;
  readonly parts: readonly ServerPart[];
  readonly principalOf: TellPrincipal;
  readonly tellCaller?: TellCaller | undefined;
  /** For what fails in a part: the client must get an answer all the same. */
  readonly fault: Fault;
}

/** Tells this process from all others; with a count it names a link, at no cost for the many that live for one request. */
const processName = lazy(() => randomBytes(12).toString('base64url'));
let links = 0;

/** Reaches the messages of one server transport. */
export function attach(server: ServerLike, transport: TransportLike, attachment: Attachment): Link {
  return new ServerLink(server, transport, attachment).link;
}

/** The way of each message through the parts, on one transport. A stateless server makes one per request: methods are cheaper than closures. */
class ServerLink implements Hooks, Stage {
  readonly setOnce = true;
  readonly owner: object;
  readonly tellCaller: TellCaller | undefined;
  readonly link: Link;
  readonly #server: ServerLike;
  readonly #transport: TransportLike;
  readonly #attachment: Attachment;
  readonly #exchanges = new UnderWay<Exchange>();
  #asked: Map<Id, Id> | undefined;
  readonly #number = ++links;
  #name: string | undefined;
  #known: Peer = STRANGER;

  constructor(server: ServerLike, transport: TransportLike, attachment: Attachment) {
    this.#server = server;
    this.#transport = transport;
    this.#attachment = attachment;
    this.owner = attachment.owner;
    this.tellCaller = attachment.tellCaller;
    this.link = instrument(transport, attachment.owner, this);
  }

  handles(method: string): boolean {
    return handles(this.#server, method);
  }

  config(request: Request): Meta | undefined {
    return configOf(this.#server, request);
  }

  again(exchange: Exchange): void {
    const passage = this.#begin(exchange);
    const deliver = (passed: Passage): void => {
      if (passed && 'run' in passed) passed.run(() => this.link.deliver(passed.message, exchange.extra));
    };
    if (passage instanceof Promise) void passage.then(deliver);
    else deliver(passage);
  }

  inbound(arrived: Message, extra: unknown): Passage | Promise<Passage> {
    const { message, top } = takeTop(arrived);
    if (isRequest(message)) return this.#received(message, top, extra);
    if (this.#isLost(extra)) return undefined;
    if (!isNotification(message)) return this.#answered(message, top, extra);
    for (const part of this.#attachment.parts) part.notified?.(message, this.link);
    // The SDKs do not answer what is cancelled.
    if (message.method === 'notifications/cancelled')
      this.#exchanges.take(message.params?.['requestId'] as Id);
    return message;
  }

  outbound(message: Message, options?: unknown): Dispatch | Promise<Dispatch> {
    if (!isRequest(message) && !isNotification(message)) return this.#sent(message);
    const out = isRequest(message) ? this.#asking(message) : this.#notifying(message);
    const { relatedRequestId } = (options ?? {}) as { readonly relatedRequestId?: Id };
    if (out && relatedRequestId !== undefined) this.#exchanges.get(relatedRequestId)?.ingress?.sent?.(out);
    return out;
  }

  #notifying(message: Notification): Notification | undefined {
    const { parts } = this.#attachment;
    let current: Notification | undefined = this.#cancelling(message);
    for (let at = parts.length - 1; current && at >= 0; at--) {
      const part = parts[at];
      if (part?.notifying) current = part.notifying(current, currentExchange(this.link), this.link);
    }
    return current;
  }

  closed(): void {
    const { parts } = this.#attachment;
    for (let at = parts.length - 1; at >= 0; at--) parts[at]?.closed?.(this.link);
    this.#exchanges.clear();
    this.#asked?.clear();
  }

  /** Another instance may have asked under the same number: ids of our own requests are told apart by this. */
  get #nonce(): string {
    this.#name ??= `${processName()}${this.#number.toString(36)}`;
    return this.#name;
  }

  /** True where a message without an answer names a session of the transport that nobody knows: the edge says so. */
  #isLost(extra: unknown): boolean {
    const ingress = takeIngress(this.owner, this.#number, extra);
    return ingress?.stray?.judge(this.#transport.sessionId !== undefined) !== undefined;
  }

  #received(message: Request, top: Top | undefined, extra: unknown): Passage | Promise<Passage> {
    if (this.#exchanges.size >= MAX_UNDER_WAY)
      return this.#reply({
        jsonrpc: '2.0',
        id: message.id,
        error: this.#attachment.fault(tooManyRequests()),
      });
    const ingress = takeIngress(this.owner, this.#number, extra, message.id);
    const isFirst = message.method === 'initialize';
    const isKnown = isFirst || this.#transport.sessionId !== undefined;
    const refused = tooLargeRequest(message) ?? ingress?.stray?.judge(isKnown);
    if (refused) return this.#reply({ jsonrpc: '2.0', id: message.id, error: refused });
    const peer = peerOf(message, ingress?.peer ?? this.#known);
    if (isFirst) this.#known = peer;
    const params = withoutIntroduction(message.params);
    let principal: Principal | undefined;
    try {
      principal = this.#attachment.principalOf(authInfoOf(extra), extra);
    } catch (error) {
      return this.#reply({ jsonrpc: '2.0', id: message.id, error: this.#attachment.fault(error) });
    }
    return this.#begin(
      new Exchange(this, {
        request: params === message.params ? message : { ...message, params },
        top,
        extra,
        ingress,
        peer,
        principal,
        transportSession:
          this.#transport.sessionId ??
          ingress?.transportSession ??
          (isHttp(extra) ? undefined : `link:${this.#nonce}`),
      }),
    );
  }

  #begin(exchange: Exchange): Passage | Promise<Passage> {
    this.#exchanges.set(exchange.request.id, exchange);
    return this.#walk(exchange, undefined, 0);
  }

  /** Shows the request to the parts from number `from` on, until one replies. */
  #walk(exchange: Exchange, before: Reply | Later | undefined, from: number): Passage | Promise<Passage> {
    const { parts } = this.#attachment;
    try {
      let reply: ReturnType<NonNullable<ServerPart['receive']>> = before;
      for (let at = from; !reply && at < parts.length; at++) {
        reply = parts[at]?.receive?.(exchange);
        if (reply instanceof Promise)
          return reply.then(
            (late) => this.#walk(exchange, late, at + 1),
            (error: unknown) => this.#failNow(exchange, error),
          );
      }
      return reply ? this.#answerNow(exchange, reply) : admitted(exchange);
    } catch (error) {
      return this.#failNow(exchange, error);
    }
  }

  #failNow(exchange: Exchange, error: unknown): undefined {
    return this.#answerNow(exchange, { error: this.#attachment.fault(error) });
  }

  #answerNow(exchange: Exchange, reply: Reply | Later): undefined {
    if ('later' in reply) return undefined;
    const { era } = exchange;
    const { id } = exchange.request;
    return this.#reply(
      'result' in reply
        ? { jsonrpc: '2.0', id, result: complete(era, reply.result) }
        : { jsonrpc: '2.0', id, ...reply },
    );
  }

  /** The same way out as a handler's answer, only without the SDK in between. */
  #reply(response: Response): undefined {
    const transport = this.#transport;
    transport.send(response).catch((error: unknown) => transport.onerror?.(error as Error));
    return undefined;
  }

  #sent(response: Response): Dispatch | Promise<Dispatch> {
    const exchange =
      response.id === undefined || response.id === null ? undefined : this.#exchanges.take(response.id);
    if (!exchange) return response;
    let out: ReturnType<Exchange['answer']>;
    try {
      out = exchange.answer(this.#introducing(exchange, response));
    } catch (error) {
      out = this.#failed(exchange, error);
    }
    const { told } = exchange;
    const isOverHttp = isHttp(exchange.extra);
    if (!(out instanceof Promise)) return told || isOverHttp ? sending(out, told, isOverHttp) : out;
    return out
      .catch((error: unknown) => this.#failed(exchange, error))
      .then((answer) => sending(answer, told, isOverHttp));
  }

  #failed(exchange: Exchange, error: unknown): Response {
    return { jsonrpc: '2.0', id: exchange.request.id, error: this.#attachment.fault(error) };
  }

  #introducing(exchange: Exchange, response: Response): Response {
    if (!INTRODUCTIONS.has(exchange.method) || !('result' in response)) return response;
    const own = response.result['capabilities'] as JsonObject | undefined;
    const families = Object.assign(
      {},
      ...this.#attachment.parts.map(({ families: own }) => (typeof own === 'function' ? own(exchange) : own)),
    ) as Families;
    const capabilities = announceServer(families);
    return {
      ...response,
      result: { ...response.result, capabilities: mergeCapabilities(own, capabilities) },
    };
  }

  #asking(request: Request): Message {
    const { parts } = this.#attachment;
    let current = request;
    for (let at = parts.length - 1; at >= 0; at--)
      current = parts[at]?.asking?.(current, currentExchange(this.link)) ?? current;
    if (current.id === request.id && typeof request.id === 'number')
      current = { ...current, id: `${this.#nonce}.${request.id}` };
    if (current.id !== request.id) {
      this.#asked ??= new Map();
      this.#asked.set(current.id, request.id);
    }
    return current;
  }

  /** A cancellation of our own request names the id that the SDK knows; the client knows the one on the wire. */
  #cancelling(message: Notification): Notification {
    if (message.method !== 'notifications/cancelled' || !this.#asked) return message;
    for (const [wireId, own] of this.#asked) {
      if (own !== message.params?.['requestId']) continue;
      this.#asked.delete(wireId);
      return { ...message, params: { ...message.params, requestId: wireId } };
    }
    return message;
  }

  #answered(response: Response, top: Top | undefined, extra: unknown): Passage {
    const own = response.id === undefined || response.id === null ? undefined : this.#asked?.get(response.id);
    if (own !== undefined) {
      this.#asked?.delete(response.id as Id);
      return { ...response, id: own } as Response;
    }
    return this.#attachment.parts.some((part) => part.answered?.(response, top, this.link, extra))
      ? undefined
      : response;
  }
}
