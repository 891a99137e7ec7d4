import { randomBytes } from 'node:crypto';
import type { JsonObject } from '../json.ts';
import { type Dispatch, instrument, type Link, type Passage } from '../link/instrument.ts';
import { takeTop } from '../link/top.ts';
import type { TransportLike } from '../link/transport.ts';
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
import { currentExchange, Exchange, runIn, type Stage } from './exchange.ts';
import type { Fault } from './fault.ts';
import { currentIngress } from './ingress.ts';
import { isHttp } from './over-http.ts';
import type { Later, Reply, ServerPart } from './part.ts';
import { type Peer, peerOf, STRANGER, withoutIntroduction } from './peer.ts';
import { type AuthInfo, authInfoOf, type Principal } from './principal.ts';

/** What every link of one server shares. */
export interface Attachment {
  readonly owner: object;
  readonly parts: readonly ServerPart[];
  readonly principalOf: (authInfo: AuthInfo | undefined, extra: unknown) => Principal | undefined;
  readonly handles: (method: string) => boolean;
  readonly config: (request: Request) => Meta | undefined;
  /** For what fails in a part: the client must get an answer all the same. */
  readonly fault: Fault;
}

/** Tells this process from all others; with a count it names a link, at no cost for the many that live for one request. */
const PROCESS = randomBytes(12).toString('base64url');
let links = 0;

/** Reaches the messages of one server transport: the way of each message through the parts. */
export function attach(
  transport: TransportLike,
  { owner, parts, principalOf, handles, config, fault }: Attachment,
): Link {
  const outwards = [...parts].reverse();
  const exchanges = new Map<Id, Exchange>();
  const asked = new Map<Id, Id>();
  // Another instance may have asked under the same number: ids of our own requests are told apart by this.
  const nonce = `${PROCESS}${(++links).toString(36)}`;
  const connection = `link:${nonce}`;
  let known: Peer = STRANGER;

  const received = (
    message: Request,
    top: ReturnType<typeof takeTop>['top'],
    extra: unknown,
  ): Passage | Promise<Passage> => {
    const ingress = currentIngress();
    const peer = peerOf(message, ingress?.peer ?? known);
    if (message.method === 'initialize') known = peer;
    const params = withoutIntroduction(message.params);
    const request = params === message.params ? message : { ...message, params };
    const session =
      transport.sessionId ?? ingress?.transportSession ?? (isHttp(extra) ? undefined : connection);
    return begin(
      new Exchange(stage, {
        request,
        top,
        extra,
        peer,
        principal: principalOf(authInfoOf(extra), extra),
        transportSession: session,
      }),
    );
  };

  const again = (exchange: Exchange): void => {
    const passage = begin(exchange);
    const deliver = (passed: Passage): void => {
      if (passed && 'run' in passed) passed.run(() => link.deliver(passed.message, exchange.extra));
    };
    if (passage instanceof Promise) void passage.then(deliver);
    else deliver(passage);
  };

  const begin = (exchange: Exchange): Passage | Promise<Passage> => {
    exchanges.set(exchange.request.id, exchange);
    return walk(exchange, undefined, 0);
  };

  /** Shows the request to the parts from number `from` on, until one replies. */
  const walk = (
    exchange: Exchange,
    before: Reply | Later | undefined,
    from: number,
  ): Passage | Promise<Passage> => {
    try {
      let reply: ReturnType<NonNullable<ServerPart['receive']>> = before;
      for (let at = from; !reply && at < parts.length; at++) {
        reply = parts[at]?.receive?.(exchange);
        if (reply instanceof Promise)
          return reply.then(
            (late) => walk(exchange, late, at + 1),
            (error: unknown) => failNow(exchange, error),
          );
      }
      return reply ? answerNow(exchange, reply) : admit(exchange);
    } catch (error) {
      return failNow(exchange, error);
    }
  };

  const admit = (exchange: Exchange): Passage => ({
    message: exchange.request,
    run: (deliver) => runIn(exchange, deliver),
  });

  const failNow = (exchange: Exchange, error: unknown): undefined =>
    answerNow(exchange, { error: fault(error) });

  const answerNow = (exchange: Exchange, reply: Reply | Later): undefined => {
    if ('later' in reply) return undefined;
    const { era } = exchange;
    const { id } = exchange.request;
    const response: Response =
      'result' in reply && era === 'modern'
        ? { jsonrpc: '2.0', id, result: { resultType: 'complete', ...reply.result } }
        : { jsonrpc: '2.0', id, ...reply };
    // The same way out as a handler's answer, only without the SDK in between.
    transport.send(response).catch((error: unknown) => transport.onerror?.(error as Error));
    return undefined;
  };

  const sent = (response: Response): Dispatch | Promise<Dispatch> => {
    const exchange =
      response.id === undefined || response.id === null ? undefined : exchanges.get(response.id);
    if (!exchange) return response;
    exchanges.delete(exchange.request.id);
    let out: ReturnType<Exchange['answer']>;
    try {
      out = exchange.answer(introducing(exchange, response));
    } catch (error) {
      out = failed(exchange, error);
    }
    const { told } = exchange;
    if (!(out instanceof Promise)) return told ? telling(out, told) : out;
    const late = out.then(undefined, (error: unknown) => failed(exchange, error));
    return told ? late.then((response) => telling(response, told)) : late;
  };

  const failed = ({ request: { id } }: Exchange, error: unknown): Response => ({
    jsonrpc: '2.0',
    id,
    error: fault(error),
  });

  const telling = (message: Response | undefined, told: () => void): Dispatch =>
    message && { message, run: (send) => send().finally(told) };

  const introducing = (exchange: Exchange, response: Response): Response => {
    if (!INTRODUCTIONS.has(exchange.method) || !('result' in response)) return response;
    const own = response.result['capabilities'] as JsonObject | undefined;
    const families = Object.assign(
      {},
      ...parts.map(({ families: own }) => (typeof own === 'function' ? own(exchange) : own)),
    ) as Families;
    const capabilities = announceServer(families);
    return {
      ...response,
      result: { ...response.result, capabilities: mergeCapabilities(own, capabilities) },
    };
  };

  const asking = (request: Request): Message => {
    let current = request;
    for (const part of outwards) current = part.asking?.(current, currentExchange()) ?? current;
    if (current.id === request.id && typeof request.id === 'number')
      current = { ...current, id: `${nonce}.${request.id}` };
    if (current.id !== request.id) asked.set(current.id, request.id);
    return current;
  };

  /** A cancellation of our own request names the id that the SDK knows; the client knows the one on the wire. */
  const cancelling = (message: Notification): Notification => {
    if (message.method !== 'notifications/cancelled') return message;
    for (const [wireId, own] of asked) {
      if (own === message.params?.['requestId'])
        return { ...message, params: { ...message.params, requestId: wireId } };
    }
    return message;
  };

  const answered = (response: Response, top: ReturnType<typeof takeTop>['top'], extra: unknown): Passage => {
    const own = response.id === undefined || response.id === null ? undefined : asked.get(response.id);
    if (own !== undefined) {
      asked.delete(response.id as Id);
      return { ...response, id: own } as Response;
    }
    return parts.some((part) => part.answered?.(response, top, link, extra)) ? undefined : response;
  };

  const link = instrument(transport, owner, {
    inbound: (arrived, extra) => {
      const { message, top } = takeTop(arrived);
      if (isRequest(message)) return received(message, top, extra);
      if (!isNotification(message)) return answered(message, top, extra);
      for (const part of parts) part.notified?.(message, link);
      return message;
    },
    outbound: (message) => {
      if (isRequest(message)) return asking(message);
      if (!isNotification(message)) return sent(message);
      let current: typeof message | undefined = cancelling(message);
      for (const part of outwards)
        current = current && (part.notifying ? part.notifying(current, currentExchange(), link) : current);
      return current;
    },
    closed: () => {
      for (const part of outwards) part.closed?.(link);
      exchanges.clear();
      asked.clear();
    },
  });
  const stage: Stage = { link, handles, config, again };
  return link;
}
