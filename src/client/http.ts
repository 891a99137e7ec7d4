import { isObject } from '../json.ts';
import { type AnswerWatch, edgeFetch, type FetchLike, withHeaders } from '../link/edge-fetch.ts';
import { documentFetch, type MessageLimit } from '../link/limit.ts';
import type { TransportLike } from '../link/transport.ts';
import { checkOptions, SETTINGS, type TakenBy } from '../options.ts';
import { isStore } from '../store/is-store.ts';
import type { Store } from '../store/types.ts';
import { type AuthOptions, checkAuth } from './continuity/auth-options.ts';
import { type ClientStateStore, isClientStateStore } from './continuity/state-store.ts';
import { isMcp, noteHttpEdge } from './http-edge.ts';
import { loadSdk, type Major } from './major.ts';
import { webAddress } from './web-address.ts';

/** Settings of a connection over HTTP. */
export interface HttpOptions {
  /** Added to every request to the server; never sent to anybody else. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Used in place of the global `fetch`. */
  readonly fetch?: FetchLike | undefined;
  /** How to sign in, where the server asks for it. */
  readonly auth?: AuthOptions | undefined;
  /**
   * False begins anew each time, and keeps nothing for the next one. `'alone'` goes on in the session that is kept unless
   * another process is in it, and begins one beside it then: for hosts, of which several may run on one store.
   */
  readonly resume?: boolean | 'alone' | undefined;
  /** Where session, metadata and credentials of this connection are kept, in place of Valise's own store. */
  readonly store?: Store | ClientStateStore | undefined;
}

const TAKEN: TakenBy<HttpOptions> = {
  headers: ['an object with headers', isObject],
  fetch: ['a function like fetch', (value) => typeof value === 'function'],
  auth: SETTINGS,
  resume: ["true, false or 'alone'", (value) => typeof value === 'boolean' || value === 'alone'],
  store: ['a store', (value) => isStore(value) || isClientStateStore(value)],
};

/** A server to connect to over HTTP. The transport is made on connecting, to fit the client's major and what is kept. */
export class HttpTarget {
  readonly url: URL;
  readonly #options: HttpOptions;

  constructor(url: string | URL, options: HttpOptions = {}) {
    this.url = webAddress(url);
    checkOptions('http', options, TAKEN);
    if (options.auth) checkAuth(options.auth);
    this.#options = options;
  }

  /** Headers and client secrets are among them: not a field, so that printing a target does not show them. */
  get options(): HttpOptions {
    return this.#options;
  }
}

/** What both majors' Streamable HTTP client transports have beyond any transport. */
export interface HttpTransport extends TransportLike {
  setProtocolVersion(version: string): void;
  resumeStream(lastEventId: string): Promise<void>;
  finishAuth(callback: unknown): Promise<void>;
}

/** What the `fetch` of a transport is made of. */
export interface FetchParts {
  readonly base: FetchLike;
  readonly target: HttpTarget;
  /** Around MCP's own requests. */
  session(base: FetchLike): FetchLike;
  /** Follows what answers them. */
  watch(init: RequestInit): AnswerWatch | undefined;
  readonly limit: MessageLimit;
  /** Around MCP's own requests, and everything else: discovery, registration, tokens. */
  readonly auth?: { resource(base: FetchLike): FetchLike; others?(): FetchLike } | undefined;
}

/**
 * One `fetch` for a transport, which uses it for two things: MCP's own requests, which pass our byte edge, and those of
 * signing in, which must not: they go to other servers, and their JSON is not MCP's.
 */
export function transportFetch({ base, target, session, watch, limit, auth }: FetchParts): FetchLike {
  const { headers } = target.options;
  const edge = session(edgeFetch(headers ? adding(base, target.url, headers) : base, watch, limit));
  const mcp = auth ? auth.resource(edge) : edge;
  const others = auth?.others?.() ?? documentFetch(base, limit);
  return (url, init = {}) => (isMcp(init) ? mcp(url, init) : others(url, init));
}

function adding(base: FetchLike, { origin }: URL, added: Readonly<Record<string, string>>): FetchLike {
  return (url, init = {}) => {
    if (new URL(url).origin !== origin) return base(url, init);
    return base(url, { ...init, headers: withHeaders(init.headers, added) });
  };
}

/** A Streamable HTTP transport of the SDK's major. */
export async function makeHttpTransport(
  major: Major,
  url: URL,
  options: {
    readonly fetch: FetchLike;
    readonly authProvider?: object | undefined;
    readonly sessionId?: string | undefined;
  },
): Promise<HttpTransport> {
  const { StreamableHTTPClientTransport } =
    major === 'v2'
      ? await loadSdk('@modelcontextprotocol/client', () => import('@modelcontextprotocol/client'))
      : await loadSdk(
          '@modelcontextprotocol/sdk',
          () => import('@modelcontextprotocol/sdk/client/streamableHttp.js'),
        );
  const { fetch, authProvider, sessionId } = options;
  const transport = new StreamableHTTPClientTransport(url, {
    fetch,
    ...(authProvider && { authProvider: authProvider as never }),
    ...(sessionId !== undefined && { sessionId }),
  }) as unknown as HttpTransport;
  noteHttpEdge(transport);
  return transport;
}
