import { isObject } from 'mcp-valise/internal';
import {
  CORE,
  type Id,
  INPUT_METHODS,
  INVALID_PARAMS,
  isNotification,
  isRequest,
  METHOD_NOT_FOUND,
  type Message,
  type Meta,
  type Notification,
  type Request,
  type Response,
  type Result,
  type RpcError,
} from 'mcp-valise/wire';
import { CallUnderWay, type Ways } from './call-under-way.ts';
import { discovered, goesOn, LOG_LEVEL, newerResult, olderParams } from './newer-shapes.ts';
import { SERVER_CHANGED } from './server-changed.ts';
import type { ServerRequests } from './server-requests.ts';
import { Subscriptions } from './subscriptions.ts';

const INVALID_REQUEST = -32600;

/** The requests that a server may send, and the capability by which a host declares that it answers them. */
const QUESTIONS: Readonly<Record<string, string>> = {
  'elicitation/create': 'elicitation',
  'sampling/createMessage': 'sampling',
  'roots/list': 'roots',
};

/** Above this number, the oldest calls that a host never came back to are forgotten. */
const MOST_CALLS = 1000;

/** Settings of the translation between a newer host and an older server. */
export interface NewerHostOptions extends Ways {
  readonly own: ServerRequests;
  /** The server's result for `initialize`. */
  readonly introduction: Result;
  /** The metadata about itself that the host sends with each request. */
  readonly envelope: Meta;
}

/**
 * Translates between a host that supports only 2026-07-28 and a server that supports only earlier revisions. The host's
 * requests lose the fields that the older era does not have, and a question that the server asks during a call becomes the
 * response to that call.
 */
export class NewerHost {
  readonly #ways: Ways;
  readonly #own: ServerRequests;
  readonly #introduction: Result;
  readonly #answers: Readonly<Record<string, unknown>>;
  readonly #subscriptions: Subscriptions;
  readonly #calls = new Map<Id, CallUnderWay>();
  #logLevel: unknown;

  constructor({ toHost, toServer, own, introduction, envelope }: NewerHostOptions) {
    this.#ways = { toHost, toServer };
    this.#own = own;
    this.#introduction = introduction;
    const capabilities = envelope[CORE.clientCapabilities];
    this.#answers = isObject(capabilities) ? capabilities : {};
    this.#subscriptions = new Subscriptions(toHost, own, introduction['capabilities']);
  }

  /** Returns the id under which the host waits for a request that the server did not accept. */
  refused(serverId: Id): Id | undefined {
    const call = this.#calls.get(serverId);
    this.#calls.delete(serverId);
    return call?.hostId;
  }

  /**
   * Ends the calls whose questions the host has not answered, because the server is gone. Returns true if there are any:
   * answers to them may still arrive, and get an error.
   */
  leave(): boolean {
    const asked = [...this.#calls.values()].filter(({ hostId }) => hostId === undefined);
    for (const call of asked) call.lose(SERVER_CHANGED);
    return asked.length > 0;
  }

  /** Whether the message carries late answers to a call of this server; if so, the host gets the error. */
  isLate(message: Message): boolean {
    const state = isRequest(message) ? message.params?.['requestState'] : undefined;
    const isOurs = [...this.#calls.values()].some((call) => call.state === state);
    if (isOurs) this.#again(message as Request);
    return isOurs;
  }

  fromHost(message: Message): void {
    if (isRequest(message)) this.#request(message);
    else if (isNotification(message)) this.#notification(message);
    // The newer era has no server requests, so a response of the host answers nobody.
  }

  #request(request: Request): void {
    const { id, method, params } = request;
    if (method === 'server/discover') this.#answer(id, discovered(this.#introduction));
    // The newer era has no `ping`, but answering it does no harm.
    else if (method === 'ping') this.#answer(id, newerResult(method, {}));
    else if (method === 'subscriptions/listen') void this.#subscriptions.listen(id, params);
    else if (goesOn(request)) this.#again(request);
    else void this.#call(request);
  }

  async #call(request: Request): Promise<void> {
    const { params } = request;
    const call = new CallUnderWay(request, this.#ways);
    this.#remember(call);
    const level = params?._meta?.[LOG_LEVEL];
    if (level !== undefined && level !== this.#logLevel && this.#logs) {
      this.#logLevel = level;
      // Waits for the response, because over HTTP a later message may arrive earlier.
      await this.#own.send('logging/setLevel', { level });
      if (!this.#calls.has(call.serverId)) return;
    }
    void this.#ways.toServer(call.request(olderParams(params)));
  }

  get #logs(): boolean {
    const capabilities = this.#introduction['capabilities'];
    return isObject(capabilities) && isObject(capabilities['logging']);
  }

  #remember(call: CallUnderWay): void {
    this.#calls.set(call.serverId, call);
    if (this.#calls.size <= MOST_CALLS) return;
    for (const [id, { isLeft }] of this.#calls) if (isLeft) this.#calls.delete(id);
  }

  /** Passes the host's answers to the server and resumes the call in which it asked. */
  #again(request: Request): void {
    const state = request.params?.['requestState'];
    const call = [...this.#calls.values()].find((each) => each.state === state);
    if (!call || call.hostId !== undefined || call.method !== request.method) {
      this.#refuse(this.#ways.toHost, request.id, {
        code: INVALID_PARAMS,
        // The previous server may have asked.
        message:
          'The call that these answers belong to is not under way at this server. It may have been carried out in part: look before calling again, without them.',
      });
      return;
    }
    const isOver = call.isLeft;
    call.again(request);
    if (isOver) this.#calls.delete(call.serverId);
  }

  #notification(message: Notification): void {
    if (message.method !== 'notifications/cancelled') {
      const params = olderParams(message.params);
      void this.#ways.toServer({ jsonrpc: '2.0', method: message.method, ...(params && { params }) });
      return;
    }
    const requestId = message.params?.['requestId'] as Id;
    if (this.#subscriptions.close(requestId)) return;
    const call = [...this.#calls.values()].find(({ latestId }) => latestId === requestId);
    if (!call) return;
    this.#calls.delete(call.serverId);
    if (call.isLeft) return;
    const params = { ...olderParams(message.params), requestId: call.serverId };
    // Sent before the questions are rejected, so that the server does not continue the call because of the rejection.
    void this.#ways.toServer({ jsonrpc: '2.0', method: message.method, params });
    call.drop();
  }

  fromServer(message: Message): void {
    if (isRequest(message)) this.#asked(message);
    else if (isNotification(message)) this.#told(message);
    else this.#answered(message as Response);
  }

  #answered(response: Response): void {
    const call = response.id === undefined || response.id === null ? undefined : this.#calls.get(response.id);
    if (call?.end(response)) this.#calls.delete(call.serverId);
  }

  #asked(request: Request): void {
    const { id, method } = request;
    if (method === 'ping') {
      void this.#ways.toServer({ jsonrpc: '2.0', id, result: {} });
      return;
    }
    const needed = Object.hasOwn(QUESTIONS, method) ? QUESTIONS[method] : undefined;
    if (needed === undefined || !isObject(this.#answers[needed])) {
      this.#refuse(this.#ways.toServer, id, {
        code: METHOD_NOT_FOUND,
        message: `The host does not answer ${method}.`,
      });
      return;
    }
    const call = this.#current();
    if (call) call.ask(request);
    else
      this.#refuse(this.#ways.toServer, id, {
        code: INVALID_REQUEST,
        message: `The host speaks 2026-07-28, where a server asks only during ${INPUT_METHODS.join(', ')}, and none of them is under way.`,
      });
  }

  /**
   * Returns the call that a question is assumed to belong to, because the older era does not say: the latest one, preferably
   * one that the host waits for.
   */
  #current(): CallUnderWay | undefined {
    const calls = [...this.#calls.values()].filter(
      ({ method, isLeft }) => INPUT_METHODS.includes(method) && !isLeft,
    );
    return calls.findLast(({ hostId }) => hostId !== undefined) ?? calls.at(-1);
  }

  #told(message: Notification): void {
    const { method, params } = message;
    if (Subscriptions.concerns(method)) this.#subscriptions.tell(message);
    else if (method === 'notifications/progress') this.#progressed(message);
    else if (method === 'notifications/cancelled') {
      for (const call of this.#calls.values()) if (call.withdrew(params?.['requestId'])) return;
    } else if (method === 'notifications/message') {
      // In the newer era, only hosts that asked for log messages receive them.
      if ([...this.#calls.values()].some(({ wantsLog }) => wantsLog)) this.#ways.toHost(message);
    } else this.#ways.toHost(message);
  }

  /**
   * Replaces the progress token: the server keeps using the one from its request, but the host waits for a later request.
   */
  #progressed(message: Notification): void {
    const token = message.params?.['progressToken'];
    const call = [...this.#calls.values()].find(({ serverToken }) => serverToken === token);
    const progressToken = call?.hostToken;
    if (token === undefined || progressToken === undefined) return;
    this.#ways.toHost({ ...message, params: { ...message.params, progressToken } });
  }

  #answer(id: Id, result: Result): void {
    this.#ways.toHost({ jsonrpc: '2.0', id, result });
  }

  #refuse(send: (message: Message) => unknown, id: Id, error: RpcError): void {
    send({ jsonrpc: '2.0', id, error });
  }
}
