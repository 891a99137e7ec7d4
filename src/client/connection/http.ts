import { compose, type Middleware } from '../../core/compose.ts';
import type { TransportLike } from '../../core/instrument.ts';
import { isObject } from '../../core/json.ts';
import { SETTINGS, type TakenBy } from '../../core/options.ts';
import { edgeFetch, type FetchLike } from '../../edge/fetch.ts';
import { documentFetch, MAX_MESSAGE, type MessageLimit } from '../../edge/limit.ts';
import { StdioClientTransport } from '../../edge/stdio-client.ts';
import { isStore, type Store } from '../../store/types.ts';
import { webAddress } from '../identity/target.ts';
import { loadSdk, type Major } from '../major.ts';
import { type AuthOptions, checkAuth } from '../oauth/options.ts';
import { hasStdioEdge } from '../stdio-edge.ts';
import { type ClientStateStore, isClientStateStore } from './state-store.ts';

/** Options for a connection over HTTP. */
export interface HttpOptions {
  /** Headers to add to every request to the server. They are never sent anywhere else. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Replaces the global `fetch`. */
  readonly fetch?: FetchLike | undefined;
  /** How to sign in, if the server requires it. */
  readonly auth?: AuthOptions | undefined;
  /**
   * Set to false to start a new session each time and store nothing for the next connection. `'alone'` resumes the stored session
   * unless another process uses it, and otherwise starts a new one. Use it if several hosts may share one store.
   */
  readonly resume?: boolean | 'alone' | undefined;
  /** The store for the session, metadata and credentials of this connection, instead of Valise's own store. */
  readonly store?: Store | ClientStateStore | undefined;
}

/** The accepted values of {@link HttpOptions}. */
export const HTTP_OPTIONS: TakenBy<HttpOptions> = {
  headers: ['an object with headers', isObject],
  fetch: ['a function like fetch', (value) => typeof value === 'function'],
  auth: SETTINGS,
  resume: ["true, false or 'alone'", (value) => typeof value === 'boolean' || value === 'alone'],
  store: ['a store', (value) => isStore(value) || isClientStateStore(value)],
};

/**
 * A server to connect to over HTTP. The transport is created on connecting, to fit the client's SDK major and the stored
 * snapshot.
 */
export class HttpTarget {
  readonly url: URL;
  readonly #options: HttpOptions;

  constructor(url: string | URL, options: HttpOptions = {}) {
    this.url = webAddress(url);
    if (options.auth) checkAuth(options.auth);
    this.#options = options;
  }

  /** The options, which may contain headers and client secrets. A getter keeps them out of a printed target. */
  get options(): HttpOptions {
    return this.#options;
  }
}

/** The members that the Streamable HTTP client transports of both SDK majors add to any transport. */
export interface HttpTransport extends TransportLike {
  setProtocolVersion(version: string): void;
  resumeStream(lastEventId: string): Promise<void>;
}

/** Adds headers to the requests to a server, unless they are already present. Requests to other origins get none. */
export function addHeaders({ origin }: URL, added: Readonly<Record<string, string>>): HttpMiddleware {
  return ({ url, headers }, next) => {
    if (new URL(url).origin === origin)
      for (const [name, value] of Object.entries(added)) if (!headers.has(name)) headers.set(name, value);
    return next();
  };
}

/** Creates a Streamable HTTP transport of an SDK major. */
export async function makeHttpTransport(major: Major, url: URL, fetch: FetchLike): Promise<HttpTransport> {
  const { StreamableHTTPClientTransport } =
    major === 'v2'
      ? await loadSdk('@modelcontextprotocol/client', () => import('@modelcontextprotocol/client'))
      : await loadSdk(
          '@modelcontextprotocol/sdk',
          () => import('@modelcontextprotocol/sdk/client/streamableHttp.js'),
        );
  const transport = new StreamableHTTPClientTransport(url, { fetch }) as unknown as HttpTransport;
  noteHttpEdge(transport);
  return transport;
}

/** A Streamable HTTP transport that an application has created. Both SDK majors keep its `fetch` under the same name. */
interface SdkTransport extends TransportLike {
  _fetch: FetchLike | undefined;
  /** Set if SDK v1 leaves redirects to `fetch`. It recognizes them by the function, which must not be replaced. */
  readonly _followRedirects?: boolean;
}

const edged = new WeakSet<TransportLike>();

/** Whether a transport has our byte edge. */
export function hasHttpEdge(transport: TransportLike): boolean {
  return edged.has(transport);
}

/** Records that a transport was created with our byte edge. */
function noteHttpEdge(transport: TransportLike): void {
  edged.add(transport);
}

/** Whether a transport reads and writes every message byte for byte. */
export function hasByteEdge(transport: TransportLike): boolean {
  return edged.has(transport) || hasStdioEdge(transport) || transport instanceof StdioClientTransport;
}

/**
 * Adds our byte edge to a Streamable HTTP transport in place, as if it had been created with it. Leaves other transports
 * unchanged. Calls `bearing` with each token before it is sent.
 */
export function addHttpEdge(
  transport: TransportLike,
  limit: MessageLimit = { maxBytes: MAX_MESSAGE },
  bearing?: (token: string) => void | Promise<void>,
): void {
  if (edged.has(transport) || !takesEdge(transport)) return;
  const { _fetch: own } = transport;
  // Like the SDKs, looks up the global `fetch` at the time of each call.
  const base: FetchLike = own ?? ((url, init) => fetch(url, init));
  const edge = edgeFetch(base, undefined, limit);
  const others = documentFetch(base, limit);
  transport._fetch = async (url, init = {}) => {
    if (!isMcp(init)) return others(url, init);
    const token = bearerOf(init.headers);
    if (token !== undefined) await bearing?.(token);
    return edge(url, init);
  };
  edged.add(transport);
}

function takesEdge(transport: TransportLike): transport is SdkTransport {
  const { _fetch, _followRedirects } = transport as Partial<SdkTransport>;
  const isKnown = Object.hasOwn(transport, '_fetch') && 'resumeStream' in transport;
  return isKnown && !_followRedirects && (_fetch === undefined || typeof _fetch === 'function');
}

/** Whether a request is MCP's own: it accepts a stream, or ends a session. Sign-in requests do neither. */
export function isMcp({ method, headers }: RequestInit): boolean {
  return method === 'DELETE' || (headerOf(headers, 'accept')?.includes('text/event-stream') ?? false);
}

/** Returns the access token in the headers of a request. */
function bearerOf(headers: RequestInit['headers']): string | undefined {
  return /^(?:bearer|dpop) +(\S+)$/i.exec(headerOf(headers, 'authorization') ?? '')?.[1];
}

function headerOf(headers: RequestInit['headers'], name: string): string | null {
  return (headers instanceof Headers ? headers : new Headers(headers)).get(name);
}

/** One HTTP request of an SDK transport to its server. */
export interface HttpExchange {
  readonly url: string | URL;
  /** The request as the transport made it. */
  readonly init: RequestInit;
  /** The headers to send. Middleware may change them before `next()`. */
  readonly headers: Headers;
}

/** A middleware around `fetch`, for everything that depends on HTTP: tokens, session ids, status codes. */
export type HttpMiddleware = Middleware<HttpExchange, Response>;

/** Returns a `fetch` whose requests pass through the middleware, the first one outermost. */
export function composeFetch(stack: readonly HttpMiddleware[], base: FetchLike): FetchLike {
  return (url, init = {}) => {
    const headers = init.headers instanceof Headers ? init.headers : new Headers(init.headers);
    return compose(stack, { url, init, headers }, () => base(url, { ...init, headers }));
  };
}

/** Returns a response without a body, in place of one that the SDKs' transports would not understand. */
export function emptyResponse(status: 202 | 405): Response {
  return new Response(null, { status });
}
