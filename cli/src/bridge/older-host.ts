import {
  type Id,
  isObject,
  type Notification,
  type Params,
  type Request,
  type Result,
} from 'mcp-valise/internal';
import { changingLists, LISTS } from './settings.ts';
import {
  ACKNOWLEDGED,
  envelopeFor,
  initializeResult,
  olderNotification,
  olderResult,
  SERVER_CHANGED,
} from './shapes.ts';
import type { AskingCall, Sides, Translation } from './translation.ts';

/** A call of the host that is not answered yet. */
interface Call {
  /** The id by which the server knows it. Undefined while the host is asked: the server does not know it then. */
  readonly serverId?: Id;
  /** The latest questions of the server in it. */
  readonly asking?: AskingCall | undefined;
}

/**
 * Translates between a host that sends `initialize` and a server that does not support it. `initialize` becomes
 * `server/discover`, each request gets the metadata that the newer era requires, methods that the newer era dropped are
 * answered here, and the questions of an `input_required` result become requests to the host.
 */
export class OlderHost implements Translation {
  readonly #bridge: Sides;
  #initialize: Params;
  #capabilities: unknown;
  /** Keyed by the host's id. */
  readonly #calls = new Map<unknown, Call>();
  #listening: Id | undefined;
  #isLeft = false;

  constructor(bridge: Sides, initialize: Params) {
    this.#bridge = bridge;
    this.#initialize = initialize;
  }

  /** Takes over a host that started at an older server. */
  takeOver(discovered: Result): void {
    this.#capabilities = discovered['capabilities'];
    this.#listen();
  }

  request(request: Request): void {
    const { method, params = {} } = request;
    const { settings } = this.#bridge;
    if (method === 'initialize') this.#discover(request);
    else if (method === 'ping') this.#bridge.answer(request, { result: {} });
    else if (method === 'logging/setLevel') {
      settings.logLevel = params['level'];
      this.#bridge.answer(request, { result: {} });
    } else if (method === 'resources/subscribe' || method === 'resources/unsubscribe') {
      if (method === 'resources/subscribe') settings.subscribed.add(String(params['uri']));
      else settings.subscribed.delete(String(params['uri']));
      this.#bridge.answer(request, { result: {} });
      this.#listen();
    } else this.#call(request, request.id, request.params);
  }

  notification(message: Notification): void {
    if (message.method === 'notifications/initialized') this.#listen();
    else if (message.method === 'notifications/cancelled') this.#cancelled(message);
    else this.#bridge.toServer(message);
  }

  fromServer(message: Request | Notification): void {
    if (message.method === ACKNOWLEDGED) return;
    this.#bridge.questions.pass('id' in message ? message : olderNotification(message));
  }

  leave(): void {
    this.#isLeft = true;
  }

  #discover(request: Request): void {
    this.#initialize = request.params ?? {};
    this.#bridge.request(this, request, this.#newer(request.id, 'server/discover', {}), (response) => {
      if (!('result' in response)) return this.#bridge.answer(request, response);
      this.#capabilities = response.result['capabilities'];
      this.#bridge.answer(request, { result: initializeResult(response.result, this.#initialize) });
    });
  }

  #call(request: Request, serverId: Id, params: Params | undefined, asking?: AskingCall): void {
    const call: Call = { serverId, asking };
    this.#calls.set(request.id, call);
    this.#bridge.request(this, request, this.#newer(serverId, request.method, params), (response) => {
      if (this.#calls.get(request.id) !== call) return;
      this.#calls.delete(request.id);
      if (!('result' in response)) this.#bridge.answer(request, response);
      else if (response.result['resultType'] === 'input_required') void this.#ask(request, response.result);
      else this.#bridge.answer(request, { result: olderResult(response.result) });
    });
  }

  /** Asks the host the questions in the server's result, and sends the call again with the answers. */
  async #ask(request: Request, { inputRequests, requestState }: Result): Promise<void> {
    const asking = { call: request, inputRequests: isObject(inputRequests) ? inputRequests : {} };
    const call: Call = { asking };
    this.#calls.set(request.id, call);
    const inputResponses = this.#isLeft
      ? undefined
      : await this.#bridge.questions.round(call, asking.inputRequests);
    // The host may have cancelled the call.
    if (this.#calls.get(request.id) !== call) return;
    this.#calls.delete(request.id);
    if (!inputResponses || this.#isLeft) this.#bridge.answer(request, { error: SERVER_CHANGED });
    else {
      const context = requestState === undefined ? {} : { requestState };
      const params = { ...request.params, inputResponses, ...context };
      this.#call(request, this.#bridge.newId('retry'), params, asking);
    }
  }

  #cancelled(message: Notification): void {
    const { requestId, reason } = message.params ?? {};
    const call = this.#calls.get(requestId);
    if (!call) return;
    const { serverId, asking } = call;
    this.#calls.delete(requestId);
    if (serverId === undefined) this.#bridge.questions.withdraw(call);
    else this.#bridge.toServer({ ...message, params: { ...message.params, requestId: serverId } });
    if (asking) this.#bridge.takenBack(asking, reason);
  }

  /** Opens one listener for all notifications. Replaces it if the set that the host wants has changed. */
  #listen(): void {
    const { subscribed } = this.#bridge.settings;
    if (this.#listening !== undefined)
      this.#bridge.toServer({
        jsonrpc: '2.0',
        method: 'notifications/cancelled',
        params: { requestId: this.#listening },
      });
    this.#listening = undefined;
    const notifications = {
      ...Object.fromEntries(changingLists(this.#capabilities).map((kind) => [LISTS[kind], true])),
      ...(subscribed.size > 0 && { resourceSubscriptions: [...subscribed] }),
    };
    if (Object.keys(notifications).length === 0) return;
    const request = this.#newer(this.#bridge.newId('listen'), 'subscriptions/listen', { notifications });
    this.#listening = request.id;
    this.#bridge.request(this, request, request, () => {});
  }

  #newer(id: Id, method: string, params: Params | undefined): Request {
    const envelope = envelopeFor(this.#initialize, this.#bridge.settings.logLevel);
    const _meta = { ...params?._meta, ...envelope };
    return { jsonrpc: '2.0', id, method, params: { ...params, _meta } };
  }
}
