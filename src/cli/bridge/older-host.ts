import { isObject } from '../../json.ts';
import {
  CORE,
  FIRST_MODERN_VERSION,
  type Id,
  isNotification,
  isRequest,
  type Message,
  type Meta,
  type Params,
  type Result,
} from '../../wire/index.ts';
import { HostRounds } from './host-rounds.ts';
import { SERVER_CHANGED } from './server-changed.ts';
import { type Wish, wishesOf } from './standing.ts';

type Send = (message: Message) => void;

/** A request of the host that the server has not answered yet. */
interface Asked {
  readonly id: Id;
  readonly method: string;
  readonly params: Params | undefined;
}

/**
 * Between a host that knows `initialize` and a server that does not: `initialize` becomes `server/discover`, each
 * request gets the metadata that the newer era wants, and what the newer era has dropped is answered here.
 */
export class OlderHost {
  /** One count for all: what was sent for an earlier one may still be answered. */
  static #sent = 0;
  readonly #toHost: Send;
  readonly #toServer: Send;
  readonly #asked = new Map<Id, Asked>();
  readonly #rounds: HostRounds;
  #initialize: Params = {};
  #logLevel: unknown;
  readonly #subscribed = new Set<string>();
  #listening: Id | undefined;
  #capabilities: Record<string, unknown> = {};

  constructor(toHost: Send, toServer: Send) {
    this.#toHost = toHost;
    this.#toServer = toServer;
    this.#rounds = new HostRounds(toHost);
  }

  /** Goes on with a host that has begun at an older server, which is a newer one by now. */
  takeOver(initialize: Params, introduction: Result, wishes: readonly Wish[]): void {
    this.#initialize = initialize;
    this.#introduce(introduction);
    for (const { method, params } of wishes)
      if (method === 'logging/setLevel') this.#logLevel = params['level'];
      else this.#subscribed.add(String(params['uri']));
    this.#listen();
  }

  /** What an older server is to be asked for in the host's place. */
  wishes(): readonly Wish[] {
    return wishesOf(this.#logLevel, this.#subscribed);
  }

  /** The server is gone: the host is not to answer any more what it has asked. True where it may have done so already. */
  leave(): boolean {
    return this.#rounds.withdraw();
  }

  /** True for an answer of the host that came too late. */
  isLate(message: Message): boolean {
    return this.#rounds.isLate(message);
  }

  fromHost(message: Message): void {
    if (isRequest(message)) this.#request(message.id, message.method, message.params);
    else if (isNotification(message)) this.#notification(message.method, message);
    else if (!this.#rounds.answered(message)) this.#toServer(message);
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

  #notification(method: string, message: Message): void {
    if (method === 'notifications/initialized') this.#listen();
    else this.#toServer(message);
  }

  fromServer(message: Message): void {
    if (isRequest(message)) {
      this.#toHost(message);
      return;
    }
    if (isNotification(message)) {
      if (message.method !== 'notifications/subscriptions/acknowledged')
        this.#toHost(withoutSubscription(message));
      return;
    }
    if (message.id === this.#listening) return;
    const asked = message.id === undefined || message.id === null ? undefined : this.#asked.get(message.id);
    if (!asked) {
      this.#toHost(message);
      return;
    }
    this.#asked.delete(message.id as Id);
    if (!('result' in message)) this.#toHost({ ...message, id: asked.id });
    else if (asked.method === 'initialize') this.#answer(asked.id, this.#introduce(message.result));
    else if (message.result['resultType'] === 'input_required') void this.#round(asked, message.result);
    else this.#answer(asked.id, older(message.result));
  }

  /** The newer era asks with a result; the host is asked as it knows it, and the call is sent once more with the answers. */
  async #round(asked: Asked, { inputRequests, requestState }: Result): Promise<void> {
    const inputResponses = await this.#rounds.ask(isObject(inputRequests) ? inputRequests : {});
    if (!inputResponses) {
      this.#toHost({ jsonrpc: '2.0', id: asked.id, error: SERVER_CHANGED });
      return;
    }
    const id = `valise-retry:${++OlderHost.#sent}`;
    this.#asked.set(id, asked);
    const context = requestState === undefined ? {} : { requestState };
    this.#send(id, asked.method, { ...asked.params, inputResponses, ...context });
  }

  #introduce(result: Result): Result {
    this.#capabilities = isObject(result['capabilities']) ? result['capabilities'] : {};
    const { instructions } = result;
    return {
      protocolVersion: this.#initialize['protocolVersion'],
      capabilities: this.#capabilities,
      serverInfo: result._meta?.[CORE.serverInfo] ?? { name: 'server', version: '0' },
      ...(instructions !== undefined && { instructions }),
      ...(result._meta && { _meta: result._meta }),
    };
  }

  /** One listener for all that the server may tell; a new one where what the host wants to hear has changed. */
  #listen(): void {
    const changes = (kind: string): boolean => {
      const capability = this.#capabilities[kind];
      return isObject(capability) && capability['listChanged'] === true;
    };
    const notifications = {
      ...(changes('tools') && { toolsListChanged: true }),
      ...(changes('prompts') && { promptsListChanged: true }),
      ...(changes('resources') && { resourcesListChanged: true }),
      ...(this.#subscribed.size > 0 && { resourceSubscriptions: [...this.#subscribed] }),
    };
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
      ...(this.#logLevel !== undefined && { 'io.modelcontextprotocol/logLevel': this.#logLevel }),
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

/** A result as the older era has it. */
function older({ resultType: _, ...result }: Result): Result {
  return result;
}

function withoutSubscription(message: Message & { readonly params?: Params | undefined }): Message {
  const { 'io.modelcontextprotocol/subscriptionId': _, ...meta } = message.params?._meta ?? {};
  if (!message.params?._meta) return message;
  const { _meta: _old, ...params } = message.params;
  return {
    ...message,
    params: Object.keys(meta).length > 0 ? { ...params, _meta: meta } : params,
  } as Message;
}
