import type { OpensOnly } from '../../client/continuity/authorization.ts';
import type { ClientLike } from '../../client/index.ts';
import type { TransportLike } from '../../link/transport.ts';
import {
  eraOf,
  type Id,
  INTERNAL_ERROR,
  isNotification,
  isRequest,
  type Message,
  type Params,
  type Request,
  type Response,
} from '../../wire/index.ts';
import { explain } from '../exit.ts';
import { ServerRequests } from './server-requests.ts';
import { ToolHeaders } from './tool-headers.ts';

/** The newer era's code for headers that do not say what the message says. */
const HEADER_MISMATCH = -32020;

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
}

/**
 * Stands where an SDK's client would: it hands every message on as it came, also those that nobody here knows.
 * What Valise does, it does on the transport below.
 */
export class Relay implements ClientLike, OpensOnly {
  readonly opensOnly = true;
  readonly #toHost: RelayOptions['toHost'];
  readonly #http: boolean;
  readonly #open = new Map<Id, Open>();
  readonly #own = new ServerRequests('valise-relay', (message) => this.send(message));
  readonly #headers = new ToolHeaders((method, params) => this.#ask(method, params));
  #transport: Under | undefined;
  #isLeft = false;
  /** Resolves when the server is gone. */
  readonly closed: Promise<void>;
  #close: () => void = () => {};

  constructor({ toHost, http }: RelayOptions) {
    this.#toHost = toHost;
    this.#http = http;
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

  /** By this, Valise takes the relay for a client that can speak both eras. */
  getDiscoverResult(): undefined {
    return undefined;
  }

  /** Hands a message of the host on. A request that cannot be delivered is answered with the reason. */
  async send(message: Message): Promise<void> {
    if (isRequest(message))
      return this.#request({ request: message, abort: new AbortController(), isAgain: false });
    if (isNotification(message) && message.method === 'notifications/cancelled')
      this.#cancelled(message.params?.['requestId'] as Id);
    try {
      await this.#transport?.send(message);
    } catch {
      // A notification or a response has nobody to tell.
    }
  }

  async #request(open: Open): Promise<void> {
    const { request, abort } = open;
    this.#open.set(request.id, open);
    try {
      const headers = this.#http ? await this.#headers.of(request) : {};
      if (abort.signal.aborted) return;
      await this.#transport?.send(request, {
        ...(Object.keys(headers).length > 0 && { headers }),
        ...(this.#http && eraOf(request) === 'modern' && { requestSignal: abort.signal }),
      });
    } catch (error) {
      if (this.#open.get(request.id) !== open) return;
      this.#open.delete(request.id);
      this.#answer(request.id, explain(error), error);
    }
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

  #answered({ id, method }: Request, response: Response): void {
    this.#open.delete(id);
    if (!('result' in response)) return;
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

  #answer(id: Id, reason: string, failure: unknown): void {
    const error = { code: INTERNAL_ERROR, message: `valise connect: ${reason}` };
    const response: Response = { jsonrpc: '2.0', id, error };
    if (!this.#own.answered(response, failure)) this.#toHost(response, failure);
  }

  #fail(reason: string): void {
    const ids = [...this.#open.keys()];
    this.#open.clear();
    for (const id of ids) this.#answer(id, reason, new Error(reason));
  }
}
