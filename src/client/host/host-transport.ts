import { messageOf, ValiseError } from '../../core/errors.ts';
import type { TransportLike } from '../../core/instrument.ts';
import {
  eraOf,
  type Id,
  INTRODUCTIONS,
  isNotification,
  isRequest,
  METHOD_NOT_FOUND,
  type Message,
  type Params,
  type Request,
  type Response,
} from '../../wire/index.ts';
import { statusOf } from '../connection/errors.ts';
import type { Connection } from '../connection.ts';
import type { ClientWarningCode } from '../events.ts';
import type { Major } from '../major.ts';
import type { OpensOnly } from '../oauth/authorization.ts';
import type { ClientSession, ClientSessions } from '../sessions/types.ts';
import { ToolHeaders } from './tool-headers.ts';

/** A transport for a host that creates its own client. It has what both SDK majors and the AI SDK expect. */
export interface HostTransport extends TransportLike {
  /** Sets the negotiated protocol version. SDK clients call it. */
  setProtocolVersion(version: string): void;
  /** Ends the transport's session at the server, if there is one. The next connection starts a new one. */
  terminateSession(): Promise<void>;
}

/** Requests that belong to no session. */
const OUTSIDE: ReadonlySet<string> = new Set([...INTRODUCTIONS, 'ping']);

/** The code of 2026-07-28 for headers that do not match the body. */
const HEADER_MISMATCH = -32020;

interface SendOptions {
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Cancels the request, as SDK v2 names it. */
  readonly requestSignal?: AbortSignal | undefined;
  /** Cancels the request, as the AI SDK names it. */
  readonly signal?: AbortSignal | undefined;
}

interface OpenRequest {
  readonly request: Request;
  readonly options: SendOptions;
  readonly abort: AbortController;
  readonly isRetry: boolean;
}

interface Under extends TransportLike {
  setProtocolVersion?(version: string): void;
  terminateSession?(): Promise<void>;
}

/** The dependencies of {@link ValiseTransport}. */
export interface HostTransportParts {
  readonly http: boolean;
  /** The SDK major that provides HTTP. v1 cannot carry requests of 2026-07-28. */
  readonly major: Major;
  /** Opens the data-layer session of the host's requests; undefined if they have none. */
  readonly openSession: ((sessions: ClientSessions) => Promise<ClientSession>) | undefined;
  /** Ends that session when the host closes the transport. Undefined if a later process may continue it. */
  readonly endSession: ((session: ClientSession) => Promise<void>) | undefined;
  /** Connects as {@link ClientValise.connect} does. */
  open(client: ValiseTransport): Promise<Connection>;
  sessions(client: ValiseTransport): ClientSessions;
  warn(code: ClientWarningCode, what: string, next: string): void;
}

/**
 * A transport with everything that `connect()` adds. To Valise it is the client that connects. To the host it is the
 * transport, and each message passes between the two unchanged.
 */
export class ValiseTransport implements HostTransport, OpensOnly {
  onclose?: (() => void) | undefined;
  onerror?: ((error: Error) => void) | undefined;
  onmessage?: ((message: unknown, extra?: unknown) => void) | undefined;
  readonly opensOnly = true;
  /** The AI SDK probes for 2026-07-28 only if its transport sets this. */
  readonly supportsProtocolVersionDiscovery = true;
  /** Makes the AI SDK wait for the response to its probe. Over HTTP one always arrives, and it may need the user to sign in. */
  readonly waitsForProtocolVersionDiscovery: boolean;
  /** SDK v2 cancels a request by its signal if the transport has a stream for each request, as HTTP has. */
  readonly hasPerRequestStream: boolean;
  /** Makes Valise use v2's HTTP transport. */
  declare getDiscoverResult?: () => undefined;
  readonly #parts: HostTransportParts;
  readonly #requests = new Map<Id, OpenRequest>();
  readonly #headers = new ToolHeaders(
    (method, params) => this.#ask(method, params),
    (what) =>
      this.#parts.warn(
        'limit-reached',
        what,
        'Arguments of the others are not sent as headers; a server that requires those refuses such calls.',
      ),
  );
  #under: Under | undefined;
  #connection: Connection | undefined;
  #session: Promise<ClientSession | undefined> | undefined;
  /** The delivery of the host's `notifications/initialized`. */
  #initialized: Promise<void> | undefined;
  /** The host's `initialize` on this transport, and the server's result. */
  #introduced: { readonly asked: string; readonly result: Params } | undefined;

  constructor(parts: HostTransportParts) {
    this.#parts = parts;
    this.hasPerRequestStream = parts.http;
    this.waitsForProtocolVersionDiscovery = parts.http;
    if (parts.major === 'v2') this.getDiscoverResult = () => undefined;
  }

  get sessionId(): string | undefined {
    return this.#under?.sessionId;
  }

  async start(): Promise<void> {
    this.#connection = await this.#parts.open(this);
  }

  /** Called by Valise with the transport that it has prepared. */
  async connect(under: Under): Promise<void> {
    this.#under = under;
    under.onmessage = (message: Message, extra?: unknown) => this.#arrived(message, extra);
    under.onclose = () => {
      this.#requests.clear();
      this.#session = undefined;
      this.onclose?.();
    };
    under.onerror = (error) => this.onerror?.(error);
    await under.start();
  }

  getServerCapabilities(): undefined {
    return undefined;
  }

  send(message: Message, options: SendOptions = {}): Promise<void> {
    const under = this.#started();
    if (isRequest(message))
      return this.#request({ request: message, options, abort: new AbortController(), isRetry: false });
    if (isNotification(message) && message.method === 'notifications/cancelled') {
      const open = this.#requests.get(message.params?.['requestId'] as Id);
      this.#requests.delete(message.params?.['requestId'] as Id);
      // On 2026-07-28, aborting the HTTP request cancels it.
      if (open && this.#parts.http && eraOf(open.request) === 'modern') {
        open.abort.abort();
        return Promise.resolve();
      }
    }
    const sent = under.send(message, options);
    if (isNotification(message) && message.method === 'notifications/initialized')
      this.#initialized = sent.catch(() => {});
    return sent;
  }

  async close(): Promise<void> {
    const { endSession } = this.#parts;
    const session = endSession && (await this.#session);
    if (session) await endSession(session).catch((error: unknown) => this.#warn('ended', error));
    if (this.#under) await this.#under.close();
    else this.onclose?.();
  }

  setProtocolVersion(version: string): void {
    this.#under?.setProtocolVersion?.(version);
  }

  async terminateSession(): Promise<void> {
    this.#introduced = undefined;
    await this.#under?.terminateSession?.();
  }

  #started(): Under {
    if (this.#under) return this.#under;
    throw new ValiseError('not-connected', 'The transport was used before start().', {
      next: 'Give it to a client, which starts it when it connects.',
    });
  }

  async #request(open: OpenRequest): Promise<void> {
    const { request, options, abort } = open;
    const isModern = eraOf(request) === 'modern';
    const isModernHttp = isModern && this.#parts.http;
    // Responds like a legacy server, so that the host continues in that era.
    if (isModernHttp && this.#parts.major === 'v1')
      return this.#answer(
        request.id,
        'Only v1 of the SDK is installed: npm install @modelcontextprotocol/client',
      );
    // The Claude Agent SDK initializes twice, and the server would start a second session.
    if (this.#introduced && request.method === 'initialize' && this.#introduced.asked === askedIn(request))
      return this.onmessage?.({ jsonrpc: '2.0', id: request.id, result: this.#introduced.result });
    this.#requests.set(request.id, open);
    try {
      // Its delivery opens the stream on which the server asks. A call that overtook it could not ask anything.
      await this.#initialized;
      const headers = isModernHttp ? await this.#headers.of(request) : {};
      if (abort.signal.aborted) return;
      const signals = [options.requestSignal, options.signal, abort.signal].filter(
        (one) => one !== undefined,
      );
      const { signal: _, requestSignal: __, ...rest } = options;
      await this.#inSession(request, () =>
        this.#started().send(request, {
          ...rest,
          ...(isModernHttp && {
            headers: { ...options.headers, ...headers },
            requestSignal: AbortSignal.any(signals),
          }),
        }),
      );
    } catch (error) {
      this.#requests.delete(request.id);
      if (request.method !== 'server/discover' || !isRefusal(error)) throw error;
      this.#answer(request.id, messageOf(error));
    }
  }

  async #inSession(request: Request, send: () => Promise<void>): Promise<void> {
    const { openSession, sessions } = this.#parts;
    const knowsSessions = this.#connection?.server.families.sessions === true;
    if (!openSession || !knowsSessions || OUTSIDE.has(request.method)) return send();
    this.#session ??= openSession(sessions(this)).catch((error: unknown) => this.#warn('opened', error));
    const session = await this.#session;
    return session ? session.run(send) : send();
  }

  #warn(what: 'opened' | 'ended', error: unknown): undefined {
    this.#parts.warn(
      'session-not-kept',
      `The session of the host could not be ${what}: ${messageOf(error)}`,
      'Calls continue without it.',
    );
    return undefined;
  }

  #arrived(message: Message, extra: unknown): void {
    if (isNotification(message) && message.method === 'notifications/tools/list_changed')
      this.#headers.forget();
    if (!('method' in message)) {
      const open = this.#requests.get(message.id as Id);
      if (open && this.#isStale(open, message)) return;
      this.#requests.delete(message.id as Id);
      if (open && 'result' in message) this.#answered(open.request, message.result);
    }
    this.onmessage?.(message, extra);
  }

  #answered(request: Request, result: Params): void {
    if (request.method === 'tools/list') this.#headers.learn(result);
    // A server that was replaced does not know of the `initialize` before.
    if (request.method === 'server/discover') this.#introduced = undefined;
    if (request.method !== 'initialize') return;
    this.#introduced = { asked: askedIn(request), result };
    const { protocolVersion: version } = result;
    if (typeof version === 'string') this.setProtocolVersion(version);
  }

  /** Whether the tool requires other headers than when it was listed. The call is then retried. */
  #isStale(open: OpenRequest, response: Response): boolean {
    const isMismatch = 'error' in response && response.error.code === HEADER_MISMATCH;
    if (!isMismatch || open.isRetry || open.request.method !== 'tools/call') return false;
    this.#headers.forget();
    // Uses a new object, because the instrumented transport passes a message that it has already seen unchanged.
    this.#request({ ...open, request: { ...open.request }, isRetry: true }).catch((error: unknown) =>
      this.#answer(open.request.id, messageOf(error)),
    );
    return true;
  }

  async #ask(method: string, params: Params): Promise<Response> {
    const id = 'valise-transport';
    try {
      const result = (await this.#connection?.request(method, params)) ?? {};
      return { jsonrpc: '2.0', id, result };
    } catch (error) {
      return { jsonrpc: '2.0', id, error: { code: METHOD_NOT_FOUND, message: messageOf(error) } };
    }
  }

  #answer(id: Id, message: string): void {
    this.onmessage?.({ jsonrpc: '2.0', id, error: { code: METHOD_NOT_FOUND, message } });
  }
}

/** Returns what the server relies on for the whole session. */
function askedIn({ params }: Request): string {
  return JSON.stringify([params?.['protocolVersion'], params?.['capabilities']]);
}

/** Client errors that do not depend on the era: credentials, rate and timing. */
const ANY_ERA: ReadonlySet<number> = new Set([401, 403, 407, 408, 429]);

/** Whether a legacy server has rejected the probe. */
function isRefusal(error: unknown): boolean {
  const status = statusOf(error) ?? 0;
  return status >= 400 && status < 500 && !ANY_ERA.has(status);
}
