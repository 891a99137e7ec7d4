import { isObject } from 'mcp-valise/internal';
import {
  CORE,
  FIRST_MODERN_VERSION,
  type Id,
  isNotification,
  isRequest,
  type Message,
  type Meta,
  type Notification,
  type Params,
  type Result,
} from 'mcp-valise/wire';
import type { AskingCall, TakenBack } from './asked-calls.ts';
import type { HostQuestions } from './host-questions.ts';
import { askRound } from './host-rounds.ts';
import { LOG_LEVEL } from './newer-shapes.ts';
import { introduced, olderNotification, olderResult, wantedOf } from './older-shapes.ts';
import { SERVER_CHANGED } from './server-changed.ts';
import { type Wish, wishesOf } from './standing.ts';

type Send = (message: Message) => void;

/** A request of the host that the server has not answered yet. */
interface Asked {
  readonly id: Id;
  readonly method: string;
  readonly params: Params | undefined;
  /** The questions, if the request carries their answers. */
  readonly answering?: AskingCall;
}

/**
 * Translates between a host that sends `initialize` and a server that does not support it: `initialize` becomes
 * `server/discover`, each request gets the metadata that the newer era requires, and methods that the newer era dropped are
 * answered here.
 */
export class OlderHost {
  /** Shared by all instances, because requests of an earlier instance may still be answered. */
  static #sent = 0;
  readonly #toHost: Send;
  readonly #toServer: Send;
  readonly #questions: HostQuestions;
  readonly #takenBack: TakenBack;
  /** Keyed by the server's id: a call in which the server asked is sent again under another id. */
  readonly #asked = new Map<Id, Asked>();
  /** Calls that wait for the host's answers, keyed by the host's id. */
  readonly #asking = new Map<Id, AskingCall & { readonly call: Asked }>();
  #isLeft = false;
  #initialize: Params = {};
  #logLevel: unknown;
  readonly #subscribed = new Set<string>();
  #listening: Id | undefined;
  #capabilities: Record<string, unknown> = {};

  constructor(toHost: Send, toServer: Send, questions: HostQuestions, takenBack: TakenBack) {
    this.#toHost = toHost;
    this.#toServer = toServer;
    this.#questions = questions;
    this.#takenBack = takenBack;
  }

  /** Takes over a host that started at an older server, now replaced by a newer one. */
  takeOver(initialize: Params, introduction: Result, wishes: readonly Wish[]): void {
    this.#initialize = initialize;
    this.#introduce(introduction);
    for (const { method, params } of wishes)
      if (method === 'logging/setLevel') this.#logLevel = params['level'];
      else this.#subscribed.add(String(params['uri']));
    this.#listen();
  }

  /** Returns the requests that restore the host's settings at an older server. */
  wishes(): readonly Wish[] {
    return wishesOf(this.#logLevel, this.#subscribed);
  }

  /** Stops all calls that wait for answers: the server is gone and its questions are withdrawn. */
  leave(): boolean {
    this.#isLeft = true;
    return false;
  }

  /** Returns the id under which the host waits for a request that the server did not accept. */
  refused(serverId: Id): Id | undefined {
    const asked = this.#asked.get(serverId);
    this.#asked.delete(serverId);
    return asked?.id;
  }

  fromHost(message: Message): void {
    if (isRequest(message)) this.#request(message.id, message.method, message.params);
    else if (isNotification(message)) this.#notification(message);
    else this.#toServer(message);
  }

  #request(id: Id, method: string, params: Params | undefined): void {
    this.#asked.set(id, { id, method, params });
    switch (method) {
      case 'initialize':
        this.#initialize = params ?? {};
        this.#send(id, 'server/discover', {});
        return;
      case 'ping':
        this.#answer(id, {});
        return;
      case 'logging/setLevel':
        this.#logLevel = params?.['level'];
        this.#answer(id, {});
        return;
      case 'resources/subscribe':
      case 'resources/unsubscribe':
        if (method === 'resources/subscribe') this.#subscribed.add(String(params?.['uri']));
        else this.#subscribed.delete(String(params?.['uri']));
        this.#answer(id, {});
        this.#listen();
        return;
      default:
        this.#send(id, method, params);
    }
  }

  #notification(message: Notification): void {
    if (message.method === 'notifications/initialized') this.#listen();
    else if (message.method === 'notifications/cancelled') this.#cancelled(message);
    else this.#toServer(message);
  }

  #cancelled(message: Notification): void {
    const { requestId, reason } = message.params ?? {};
    const asking = this.#asking.get(requestId as Id);
    if (asking) {
      // The server does not know the call until it is sent again.
      this.#asking.delete(asking.call.id);
      this.#questions.withdraw(asking.call);
      this.#takenBack(asking, reason);
      return;
    }
    const [serverId, asked] = [...this.#asked].find(([, { id }]) => id === requestId) ?? [];
    if (serverId === undefined) return;
    this.#asked.delete(serverId);
    this.#toServer({ ...message, params: { ...message.params, requestId: serverId } });
    if (asked?.answering) this.#takenBack(asked.answering, reason);
  }

  fromServer(message: Message): void {
    if (isRequest(message)) {
      this.#questions.pass(this, message, this.#toServer);
      return;
    }
    if (isNotification(message)) {
      if (message.method !== 'notifications/subscriptions/acknowledged')
        this.#toHost(olderNotification(message));
      return;
    }
    if (message.id === undefined || message.id === null) {
      this.#toHost(message);
      return;
    }
    const asked = this.#asked.get(message.id);
    // The response belongs to a listener of the bridge, or to a call that the host cancelled.
    if (!asked) return;
    this.#asked.delete(message.id);
    if (!('result' in message)) this.#toHost({ ...message, id: asked.id });
    else if (asked.method === 'initialize') this.#answer(asked.id, this.#introduce(message.result));
    else if (message.result['resultType'] === 'input_required') void this.#round(asked, message.result);
    else this.#answer(asked.id, olderResult(message.result));
  }

  /**
   * Asks the host the questions in the server's result, in the older era's form, and sends the call again with the answers.
   */
  async #round(asked: Asked, { inputRequests, requestState }: Result): Promise<void> {
    const answering = { call: asked, inputRequests: isObject(inputRequests) ? inputRequests : {} };
    this.#asking.set(asked.id, answering);
    const inputResponses = this.#isLeft
      ? undefined
      : await askRound(this.#questions, asked, answering.inputRequests);
    // The host may have cancelled the call.
    if (!this.#asking.delete(asked.id)) return;
    if (!inputResponses || this.#isLeft) {
      this.#toHost({ jsonrpc: '2.0', id: asked.id, error: SERVER_CHANGED });
      return;
    }
    const id = `valise-retry:${++OlderHost.#sent}`;
    this.#asked.set(id, { ...asked, answering });
    const context = requestState === undefined ? {} : { requestState };
    this.#send(id, asked.method, { ...asked.params, inputResponses, ...context });
  }

  #introduce(result: Result): Result {
    this.#capabilities = isObject(result['capabilities']) ? result['capabilities'] : {};
    return introduced(result, this.#initialize);
  }

  /** Opens one listener for all notifications. Replaces it if the set that the host wants has changed. */
  #listen(): void {
    const notifications = wantedOf(this.#capabilities, this.#subscribed);
    if (this.#listening !== undefined)
      this.#toServer({
        jsonrpc: '2.0',
        method: 'notifications/cancelled',
        params: { requestId: this.#listening },
      });
    this.#listening = undefined;
    if (Object.keys(notifications).length === 0) return;
    this.#listening = `valise-listen:${++OlderHost.#sent}`;
    this.#send(this.#listening, 'subscriptions/listen', { notifications });
  }

  #send(id: Id, method: string, params: Params | undefined): void {
    const envelope: Meta = {
      [CORE.protocolVersion]: FIRST_MODERN_VERSION,
      [CORE.clientCapabilities]: this.#initialize['capabilities'] ?? {},
      ...(this.#initialize['clientInfo'] !== undefined && {
        [CORE.clientInfo]: this.#initialize['clientInfo'],
      }),
      ...(this.#logLevel !== undefined && { [LOG_LEVEL]: this.#logLevel }),
    };
    this.#toServer({
      jsonrpc: '2.0',
      id,
      method,
      params: { ...params, _meta: { ...params?._meta, ...envelope } },
    });
  }

  #answer(id: Id, result: Result): void {
    this.#asked.delete(id);
    this.#toHost({ jsonrpc: '2.0', id, result });
  }
}
