import {
  CORE,
  type Id,
  INPUT_METHODS,
  INVALID_PARAMS,
  isObject,
  isRequest,
  METHOD_NOT_FOUND,
  type Meta,
  type Notification,
  type Request,
  type Result,
} from 'mcp-valise/internal';
import { Listeners } from './listeners.ts';
import { NewerCall } from './newer-call.ts';
import { discoverResult, isContinuation, isListener, LOG_LEVEL, newerResult, olderParams } from './shapes.ts';
import type { Sides, Translation } from './translation.ts';

const INVALID_REQUEST = -32600;

/** The requests that a server may send, and the capability by which a host declares that it answers them. */
const QUESTIONS: Readonly<Record<string, string>> = {
  'elicitation/create': 'elicitation',
  'sampling/createMessage': 'sampling',
  'roots/list': 'roots',
};

/** Above this number, the oldest calls that a host never came back to are forgotten. */
const MAX_CALLS = 1000;

/**
 * Translates between a host that supports only 2026-07-28 and a server that supports only earlier revisions. The host's
 * requests lose the fields that the older era does not have, and a question that the server asks during a call becomes the
 * response to that call.
 */
export class NewerHost implements Translation {
  readonly #bridge: Sides;
  /** The server's result for `initialize`. */
  readonly #introduction: Result;
  readonly #hostCapabilities: unknown;
  readonly #listeners: Listeners;
  readonly #calls = new Set<NewerCall>();
  #logLevel: unknown;

  constructor(bridge: Sides, introduction: Result, envelope: Meta) {
    this.#bridge = bridge;
    this.#introduction = introduction;
    this.#hostCapabilities = envelope[CORE.clientCapabilities];
    this.#listeners = new Listeners(bridge, introduction['capabilities']);
  }

  request(request: Request): void {
    const { method } = request;
    if (method === 'server/discover')
      this.#bridge.answer(request, { result: discoverResult(this.#introduction) });
    // The newer era has no `ping`, but answering it does no harm.
    else if (method === 'ping') this.#bridge.answer(request, { result: newerResult(method, {}) });
    else if (isListener(request)) void this.#listeners.open(request);
    else if (isContinuation(request)) this.#continue(request);
    else void this.#call(request);
  }

  notification(message: Notification): void {
    if (message.method !== 'notifications/cancelled') {
      const params = olderParams(message.params);
      this.#bridge.toServer({ jsonrpc: '2.0', method: message.method, ...(params && { params }) });
      return;
    }
    const requestId = message.params?.['requestId'] as Id;
    if (this.#listeners.close(requestId)) return;
    const call = this.#find(({ latestId }) => latestId === requestId);
    if (!call) return;
    this.#calls.delete(call);
    if (call.isOver) return;
    const params = { ...olderParams(message.params), requestId: call.serverId };
    // Sent before the questions are rejected, so that the server does not continue the call because of the rejection.
    this.#bridge.toServer({ jsonrpc: '2.0', method: message.method, params });
    call.cancel();
  }

  fromServer(message: Request | Notification): void {
    if (isRequest(message)) this.#asked(message);
    else if (!this.#listeners.notify(message)) this.#notified(message);
  }

  /** Ends the calls whose questions the host has not answered. Its answers may still arrive, and get an error. */
  leave(): void {
    for (const call of this.#calls) {
      if (call.isAwaited) continue;
      call.lose();
      this.#bridge.lost.set(call.state, call);
      const [oldest] = this.#bridge.lost.size > MAX_CALLS ? this.#bridge.lost.keys() : [];
      this.#bridge.lost.delete(oldest);
    }
  }

  async #call(request: Request): Promise<void> {
    const { params } = request;
    const call = new NewerCall(this.#bridge, request);
    this.#calls.add(call);
    if (this.#calls.size > MAX_CALLS)
      for (const each of this.#calls) if (each.isOver) this.#calls.delete(each);
    const level = params?._meta?.[LOG_LEVEL];
    const capabilities = this.#introduction['capabilities'];
    const isLogging = isObject(capabilities) && isObject(capabilities['logging']);
    if (level !== undefined && level !== this.#logLevel && isLogging) {
      this.#logLevel = level;
      // Waits for the response, because over HTTP a later message may arrive earlier.
      await this.#bridge.ask('logging/setLevel', { level });
      if (!this.#calls.has(call)) return;
    }
    this.#bridge.request(this, request, call.request(olderParams(params)), (response) => {
      if (!this.#calls.has(call)) return;
      if (call.isAwaited) this.#calls.delete(call);
      call.end(response);
    });
  }

  /** Passes the host's answers to the server and continues the call in which it asked. */
  #continue(request: Request): void {
    const state = request.params?.['requestState'];
    const call = this.#find((each) => each.state === state);
    if (!call || call.isAwaited || call.first.method !== request.method) {
      // The previous server may have asked.
      const message =
        'The call that these answers belong to is not under way at this server. It may have been carried out in part: look before calling again, without them.';
      this.#bridge.answer(request, { error: { code: INVALID_PARAMS, message } });
      return;
    }
    if (call.isOver) this.#calls.delete(call);
    call.continue(request);
  }

  #asked(question: Request): void {
    const { id, method } = question;
    const needed = Object.hasOwn(QUESTIONS, method) ? QUESTIONS[method] : undefined;
    const answers = isObject(this.#hostCapabilities) ? this.#hostCapabilities : {};
    const call = this.#current();
    if (method === 'ping') this.#bridge.toServer({ jsonrpc: '2.0', id, result: {} });
    else if (needed === undefined || !isObject(answers[needed]))
      this.#refuse(id, METHOD_NOT_FOUND, `The host does not answer ${method}.`);
    else if (call) call.ask(question);
    else
      this.#refuse(
        id,
        INVALID_REQUEST,
        `The host speaks 2026-07-28, where a server asks only during ${INPUT_METHODS.join(', ')}, and none of them is under way.`,
      );
  }

  /**
   * Returns the call that a question is assumed to belong to, because the older era does not say: the latest one, preferably
   * one that the host waits for.
   */
  #current(): NewerCall | undefined {
    const calls = [...this.#calls].filter(
      ({ first, isOver }) => INPUT_METHODS.includes(first.method) && !isOver,
    );
    return calls.findLast(({ isAwaited }) => isAwaited) ?? calls.at(-1);
  }

  #notified(message: Notification): void {
    const { method, params } = message;
    if (method === 'notifications/progress') {
      // The server keeps using the token of its request, but the host may wait for a later one.
      const token = params?.['progressToken'];
      const progressToken = this.#find(({ serverToken }) => serverToken === token)?.hostToken;
      if (token !== undefined && progressToken !== undefined)
        this.#bridge.toHost({ ...message, params: { ...params, progressToken } });
    } else if (method === 'notifications/cancelled')
      this.#find((call) => call.withdrew(params?.['requestId']));
    // In the newer era, only hosts that asked for log messages receive them.
    else if (method !== 'notifications/message' || this.#find(({ wantsLog }) => wantsLog))
      this.#bridge.toHost(message);
  }

  #find(fits: (call: NewerCall) => boolean): NewerCall | undefined {
    return [...this.#calls].find(fits);
  }

  #refuse(id: Id, code: number, message: string): void {
    this.#bridge.toServer({ jsonrpc: '2.0', id, error: { code, message } });
  }
}
