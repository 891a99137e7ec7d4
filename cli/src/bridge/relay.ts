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

/** The newer era's code for headers that do not say what the message says. */
const HEADER_MISMATCH = -32020;

/** Said where HTTP goes by v1. */
export const OLDER_ONLY = `Only v1 of the SDK is installed, which reaches servers of the protocol up to 2025-11-25. For 2026-07-28, run: npm install ${SDK_PACKAGES.client.v2}`;

/** A request that the server has not answered yet. */
interface Open {
  readonly request: Request;
  /** Takes it back. Over HTTP, the newer era cancels by hanging up. */
  readonly abort: AbortController;
  /** True once it has been sent with other headers than at first. */
  readonly isAgain: boolean;
}

/** What a transport over HTTP has beyond others. */
interface Under extends TransportLike {
  setProtocolVersion?(version: string): void;
  terminateSession?(): Promise<void>;
}

/** Settings of a relay. */
export interface RelayOptions {
  /** Takes a message of the server, or one of ours in its place with the failure that it tells of. */
  toHost(message: Message, failure?: unknown): void;
  /** True where the server is reached over HTTP, which says some things in headers. */
  readonly http: boolean;
  /** The major of the SDK that HTTP goes by. */
  readonly sdk: Sdk;
  /** Says something about the server to whoever runs the bridge. */
  tell(what: string): void;
}

/**
 * Stands where an SDK's client would: it hands every message on as it came, also those that nobody here knows.
 * What Valise does, it does on the transport below.
 */
export class Relay implements ClientLike, OpensOnly {
  readonly opensOnly = true;
  readonly #toHost: RelayOptions['toHost'];
  readonly #http: boolean;
  /** True where what carries the messages knows nothing of the newer era: v1's HTTP has no headers for it. */
  readonly #isOlder: boolean;
  readonly #open = new Map<Id, Open>();
  readonly #own = new ServerRequests('valise-relay', (message) => this.send(message));
  /** What the server keeps for the host as long as their session lasts. */
  readonly standing = new Standing();
  readonly #headers: ToolHeaders;
  /** By this, Valise takes the relay for a client of v2, and its HTTP with it. */
  declare getDiscoverResult?: () => undefined;
  #transport: Under | undefined;
  /** The delivery of the host's `notifications/initialized`. */
  #introducing: Promise<void> | undefined;
  #isLeft = false;
  /** Resolves when the server is gone. */
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

  /** Hands a message of the host on. A request that cannot be delivered is answered with the reason. */
  async send(message: Message): Promise<void> {
    if (isRequest(message))
      return this.#request({ request: message, abort: new AbortController(), isAgain: false });
    if (isNotification(message) && message.method === 'notifications/cancelled')
      this.#cancelled(message.params?.['requestId'] as Id);
    const sending = this.#transport?.send(message).catch(() => {
      // A notification or a response has nobody to tell.
    });
    if (isNotification(message) && message.method === 'notifications/initialized')
      this.#introducing = sending;
    await sending;
  }

  async #request(open: Open): Promise<void> {
    const { request, abort } = open;
    // As an older server does, so that the host, or the bridge for it, goes on in the older era.
    if (this.#isOlder && eraOf(request) === 'modern')
      return this.#answer(request.id, OLDER_ONLY, undefined, METHOD_NOT_FOUND);
    this.#open.set(request.id, open);
    try {
      // With its delivery the transport opens the stream by which the server asks. A call that came first could ask nothing.
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

  /** A server that refuses to begin may know only the newer era. */
  #why({ method }: Request, error: unknown): string {
    const isRefused = this.#isOlder && method === 'initialize' && statusOf(error) === 400;
    return isRefused ? `${explain(error)} ${OLDER_ONLY}` : explain(error);
  }

  /** Ends the session that the transport is in, so that another `initialize` begins another one. */
  async restart(): Promise<void> {
    try {
      await this.#transport?.terminateSession?.();
    } catch {
      // The server will end it by itself.
    }
    // The version is agreed on anew; without a text here, the transport names none.
    this.#transport?.setProtocolVersion?.('');
  }

  /** Another session has begun in place of one that the server has lost. */
  renewed(): void {
    for (const { method, params } of this.standing.wishes()) void this.#ask(method, params);
    for (const message of this.standing.news()) this.#toHost(message);
  }

  /** The host is gone. */
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
    // Every later request over HTTP names the version that was agreed on.
    const version = response.result['protocolVersion'];
    if (typeof version === 'string') this.#transport?.setProtocolVersion?.(version);
  }

  /** True for a tool that wants other headers than it did when it was listed: it is called once more, with these. */
  #isStale(open: Open, response: Response): boolean {
    const isStale = 'error' in response && response.error.code === HEADER_MISMATCH;
    if (!isStale || open.isAgain || !this.#http || open.request.method !== 'tools/call') return false;
    this.#headers.forget();
    // Another object: a message that the transport has seen before would pass by Valise.
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
