import { LEFT_OPEN, type PendingRound } from 'mcp-valise/client';
import { isObject } from 'mcp-valise/internal';
import {
  CORE,
  type Era,
  eraOf,
  type Id,
  INPUT_METHODS,
  isNotification,
  isRequest,
  type Message,
  type Params,
  type Request,
  type Response,
  type Result,
  readAnnounced,
} from 'mcp-valise/wire';
import { canBeAsked, leavesOpen, withForms } from './askable.ts';

/** A call of a host that cannot be asked, and the round in which it waits. */
export interface LeftOpen {
  readonly request: Request;
  readonly era: Era;
  /** The `data` of the call's error, which names its round. */
  readonly data?: unknown;
  /** The server's questions, if they were the response. */
  readonly inputRequests?: Readonly<Record<string, unknown>>;
}

/** Dependencies of {@link OpenQuestions}. */
export interface OpenQuestionsOptions {
  toHost(message: Message, failure?: unknown): void;
  toServer(message: Message): Promise<void>;
  /** Ends the transport session that `initialize` started, so that `initialize` can be sent again. */
  restart(): Promise<void>;
  /** Finds the stored round of a call. */
  find(left: LeftOpen): Promise<PendingRound | undefined>;
  /** Tells people, but not the host, what the server asks and how to answer. */
  tell(round: PendingRound, era: Era): void;
  /** Returns the text that the host gets for a call that waits. */
  waiting(round: PendingRound): string;
}

/**
 * Sits in front of a server for a host that cannot be asked. Questions of the server stay open for `valise pending`, and the
 * host learns that its call waits. In the older era, only servers that can wait for an answer are told that they may ask; in
 * the newer era, every server can wait.
 */
export class OpenQuestions {
  readonly #options: OpenQuestionsOptions;
  /** The host's `initialize`, until the server answers it. */
  #initialize: Request | undefined;
  /** The capabilities that a host of the older era declared. */
  #capabilities: unknown;
  readonly #calls = new Map<Id, Request>();

  constructor(options: OpenQuestionsOptions) {
    this.#options = options;
  }

  /** Handles a message for the server. */
  fromHost(message: Message): Promise<void> {
    if (isRequest(message)) return this.#options.toServer(this.#requested(message));
    if (isNotification(message) && message.method === 'notifications/cancelled')
      this.#calls.delete(message.params?.['requestId'] as Id);
    return this.#options.toServer(message);
  }

  /** Handles a message from the server. */
  fromServer(message: Message, failure?: unknown): void {
    if (isRequest(message) && leavesOpen(this.#capabilities, message)) {
      // Servers that cannot wait receive this text.
      const error = { code: LEFT_OPEN, message: 'The host cannot be asked.' };
      void this.#options.toServer({ jsonrpc: '2.0', id: message.id, error });
    } else if ('method' in message || !this.#answered(message, failure))
      this.#options.toHost(message, failure);
  }

  #requested(request: Request): Request {
    const { id, method, params } = request;
    if (method === 'initialize') {
      this.#capabilities = params?.['capabilities'] ?? {};
      this.#initialize = canBeAsked(this.#capabilities) ? undefined : request;
      return request;
    }
    if (!INPUT_METHODS.includes(method)) return request;
    const isModern = eraOf(request) === 'modern';
    const capabilities = isModern ? params?._meta?.[CORE.clientCapabilities] : this.#capabilities;
    if (canBeAsked(capabilities)) return request;
    this.#calls.set(id, request);
    if (!isModern) return request;
    const _meta = { ...params?._meta, [CORE.clientCapabilities]: withForms(capabilities) };
    return { ...request, params: { ...params, _meta } };
  }

  /** Whether the response is withheld from the host or replaced. */
  #answered(response: Response, failure: unknown): boolean {
    const { id } = response;
    if (id === undefined || id === null) return false;
    if (id === this.#initialize?.id) return this.#introduced(this.#initialize, response);
    const request = this.#calls.get(id);
    this.#calls.delete(id);
    const left = request && leftIn(request, response);
    if (left) void this.#leave(left, response, failure);
    return left !== undefined;
  }

  /** Sends `initialize` again with form support if the server can wait for answers, so that it may ask. */
  #introduced(initialize: Request, response: Response): boolean {
    this.#initialize = undefined;
    if (!('result' in response)) return false;
    if (readAnnounced(response.result['capabilities']).rounds.length === 0) return false;
    const { toServer, restart } = this.#options;
    const params: Params = { ...initialize.params, capabilities: withForms(this.#capabilities) };
    void restart().then(() => toServer({ ...initialize, params }));
    return true;
  }

  async #leave(left: LeftOpen, response: Response, failure: unknown): Promise<void> {
    const { find, tell, toHost } = this.#options;
    const { request, era } = left;
    const round = await find(left).catch(() => undefined);
    if (!round) return toHost(response, failure);
    tell(round, era);
    toHost(waiting(request, era, this.#options.waiting(round)));
  }
}

/** Returns what a response leaves open. Returns undefined if it is final, or if the host can answer all its questions. */
function leftIn(request: Request, response: Response): LeftOpen | undefined {
  const era = eraOf(request);
  if ('error' in response)
    return response.error.code === LEFT_OPEN ? { request, era, data: response.error.data } : undefined;
  const { resultType, inputRequests } = response.result;
  if (resultType !== 'input_required' || !isObject(inputRequests)) return undefined;
  const capabilities = request.params?._meta?.[CORE.clientCapabilities];
  const isLeft = Object.values(inputRequests).some((asked) => leavesOpen(capabilities, asked));
  return isLeft ? { request, era, inputRequests } : undefined;
}

/** Returns the host's response for a call that waits. For a tool it is a result, because models read results. */
function waiting({ id, method }: Request, era: Era, text: string): Response {
  if (method !== 'tools/call') return { jsonrpc: '2.0', id, error: { code: LEFT_OPEN, message: text } };
  const result: Result = {
    content: [{ type: 'text', text }],
    isError: true,
    ...(era === 'modern' && { resultType: 'complete' }),
  };
  return { jsonrpc: '2.0', id, result };
}
