import type { ClientLike } from 'mcp-valise/client';
import type { OpensOnly, TransportLike } from 'mcp-valise/internal';
import { statusOf, ToolHeaders } from 'mcp-valise/internal';
import {
  eraOf,
  type Id,
  INTERNAL_ERROR,
  isNotification,
  isRequest,
  METHOD_NOT_FOUND,
  type Message,
  type Params,
  type Request,
  type Response,
} from 'mcp-valise/wire';
import { explain } from '../exit.ts';
import { SDK_PACKAGES } from '../installed.ts';
import type { Sdk } from '../sdk.ts';
import { ServerRequests } from './server-requests.ts';
import { Standing } from './standing.ts';

/** The newer era's code for headers that do not match the message. */
const HEADER_MISMATCH = -32020;

/** Reported when HTTP uses v1 of the SDK. */
export const OLDER_ONLY = `Only v1 of the SDK is installed, which reaches servers of the protocol up to 2025-11-25. For 2026-07-28, run: npm install ${SDK_PACKAGES.client.v2}`;

/** A request that the server has not answered yet. */
interface Open {
  readonly request: Request;
  /** Cancels the request. Over HTTP, the newer era cancels by closing the connection. */
  readonly abort: AbortController;
  /** Whether the request was already resent with other headers. */
  readonly isAgain: boolean;
}

/** The methods that only HTTP transports have. */
interface Under extends TransportLike {
  setProtocolVersion?(version: string): void;
  terminateSession?(): Promise<void>;
}

/** Settings of a relay. */
export interface RelayOptions {
  /** Receives a message from the server, or a substitute from the relay together with the failure that it reports. */
  toHost(message: Message, failure?: unknown): void;
  /** Whether the server is reached over HTTP, which carries some information in headers. */
  readonly http: boolean;
  /** The SDK major that provides the HTTP transport. */
  readonly sdk: Sdk;
  /** Reports something about the server to the person who runs the bridge. */
  tell(what: string): void;
}

/**
 * Takes the place of an SDK client: passes every message on unchanged, including unknown ones. Valise works on the transport
 * below it.
 */
export class Relay implements ClientLike, OpensOnly {
  readonly opensOnly = true;
  readonly #toHost: RelayOptions['toHost'];
  readonly #http: boolean;
  /** Whether the transport does not support the newer era: v1's HTTP transport does not send its headers. */
  readonly #isOlder: boolean;
  readonly #open = new Map<Id, Open>();
  readonly #own = new ServerRequests('valise-relay', (message) => this.send(message));
  /** The state that the server keeps for the host while their session lasts. */
  readonly standing = new Standing();
  readonly #headers: ToolHeaders;
  /** Makes Valise treat the relay, and its HTTP transport, as a v2 client. */
  declare getDiscoverResult?: () => undefined;
  #transport: Under | undefined;
  /** The delivery of the host's `notifications/initialized`. */
  #introducing: Promise<void> | undefined;
  #isLeft = false;
  /** Resolves when the connection to the server closes. */
  readonly closed: Promise<void>;
  #close: () => void = () => {};

  constructor({ toHost, http, sdk, tell }: RelayOptions) {
    this.#headers = new ToolHeaders((method, params) => this.#ask(method, params), tell);
    this.#toHost = toHost;
    this.#http = http;
    this.#isOlder = http && sdk === 'v1';
    if (sdk === 'v2') this.getDiscoverResult = () => undefined;
    this.closed = new Promise((resolve) => {
      this.#close = resolve;
    });
  }

  async connect(transport: TransportLike): Promise<void> {
    this.#transport = transport;
    transport.onmessage = (message: Message) => this.#arrived(message);
    transport.onclose = () => {
      this.#fail(this.#isLeft ? 'The host closed its side.' : 'The server closed the connection.');
      this.#close();
    };
    await transport.start();
  }

  getServerCapabilities(): undefined {
    return undefined;
  }

  /** Sends a message of the host. A request that cannot be delivered is answered with the reason. */
  async send(message: Message): Promise<void> {
    if (isRequest(message))
      return this.#request({ request: message, abort: new AbortController(), isAgain: false });
    if (isNotification(message) && message.method === 'notifications/cancelled')
      this.#cancelled(message.params?.['requestId'] as Id);
    const sending = this.#transport?.send(message).catch(() => {
      // Nobody waits for the outcome of a notification or a response.
    });
    if (isNotification(message) && message.method === 'notifications/initialized')
      this.#introducing = sending;
    await sending;
  }

  async #request(open: Open): Promise<void> {
    const { request, abort } = open;
    // Answers as an older server would, so that the host, or the bridge for it, continues in the older era.
    if (this.#isOlder && eraOf(request) === 'modern')
      return this.#answer(request.id, OLDER_ONLY, undefined, METHOD_NOT_FOUND);
    this.#open.set(request.id, open);
    try {
      // Delivering `notifications/initialized` opens the stream on which the server asks. An earlier call could not ask
      // anything.
      await this.#introducing;
      const headers = this.#http ? await this.#headers.of(request) : {};
      if (abort.signal.aborted) return;
      await this.#transport?.send(request, {
        ...(Object.keys(headers).length > 0 && { headers }),
        ...(this.#http && eraOf(request) === 'modern' && { requestSignal: abort.signal }),
      });
    } catch (error) {
      if (this.#open.get(request.id) !== open) return;
      this.#open.delete(request.id);
      this.#answer(request.id, this.#why(request, error), error);
    }
  }

  /** Adds a hint to the error: a server that refuses `initialize` may support only the newer era. */
  #why({ method }: Request, error: unknown): string {
    const isRefused = this.#isOlder && method === 'initialize' && statusOf(error) === 400;
    return isRefused ? `${explain(error)} ${OLDER_ONLY}` : explain(error);
  }

  /** Ends the transport's session, so that the next `initialize` starts a new one. */
  async restart(): Promise<void> {
    try {
      await this.#transport?.terminateSession?.();
    } catch {
      // The server ends the session on its own.
    }
    // The next `initialize` negotiates the version again; with an empty string, the transport sends none.
    this.#transport?.setProtocolVersion?.('');
  }

  /** Restores the host's settings after a new session replaced one that the server lost. */
  renewed(): void {
    for (const { method, params } of this.standing.wishes()) void this.#ask(method, params);
    for (const message of this.standing.news()) this.#toHost(message);
  }

  /** Closes the connection because the host is gone. */
  async close(): Promise<void> {
    this.#isLeft = true;
    await this.#transport?.close();
  }

  #arrived(message: Message): void {
    if (isNotification(message) && message.method === 'notifications/tools/list_changed')
      this.#headers.forget();
    if (!('method' in message) && message.id !== undefined && message.id !== null) {
      const open = this.#open.get(message.id);
      if (open && this.#isStale(open, message)) return;
      if (open) this.#answered(open.request, message);
    }
    if (!this.#own.answered(message, undefined)) this.#toHost(message);
  }

  #answered(request: Request, response: Response): void {
    const { id, method } = request;
    this.#open.delete(id);
    if (!('result' in response)) return;
    this.standing.agreed(request, response.result);
    if (method === 'tools/list') this.#headers.learn(response.result);
    if (method !== 'initialize') return;
    // Every later request over HTTP names the negotiated version.
    const version = response.result['protocolVersion'];
    if (typeof version === 'string') this.#transport?.setProtocolVersion?.(version);
  }

  /** Whether a tool now requires other headers than when it was listed; if so, the call is resent with the new ones. */
  #isStale(open: Open, response: Response): boolean {
    const isStale = 'error' in response && response.error.code === HEADER_MISMATCH;
    if (!isStale || open.isAgain || !this.#http || open.request.method !== 'tools/call') return false;
    this.#headers.forget();
    // Sends a copy: the transport would pass a message object that it has seen before without involving Valise.
    void this.#request({ ...open, request: { ...open.request }, isAgain: true });
    return true;
  }

  #cancelled(id: Id): void {
    this.#open.get(id)?.abort.abort();
    this.#open.delete(id);
  }

  async #ask(method: string, params: Params): Promise<Response> {
    return (await this.#own.send(method, params)).response;
  }

  #answer(id: Id, reason: string, failure: unknown, code = INTERNAL_ERROR): void {
    const error = { code, message: `valise connect: ${reason}` };
    const response: Response = { jsonrpc: '2.0', id, error };
    if (!this.#own.answered(response, failure)) this.#toHost(response, failure);
  }

  #fail(reason: string): void {
    const ids = [...this.#open.keys()];
    this.#open.clear();
    for (const id of ids) this.#answer(id, reason, new Error(reason));
  }
}
