import { edgeFetch, type FetchLike } from '../link/edge-fetch.ts';
import type { TransportLike } from '../link/transport.ts';
import type { AuthOptions } from './continuity/auth-options.ts';
import { loadSdk, type Major } from './major.ts';

/** Settings of a connection over HTTP. */
export interface HttpOptions {
  /** Added to every request. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Used in place of the global `fetch`. */
  readonly fetch?: FetchLike | undefined;
  /** How to sign in, where the server asks for it. */
  readonly auth?: AuthOptions | undefined;
  /** False begins anew each time, and keeps nothing for the next one. */
  readonly resume?: boolean | undefined;
}

/** A server to connect to over HTTP. The transport is made on connecting, to fit the client's major and what is kept. */
export class HttpTarget {
  readonly url: URL;
  readonly options: HttpOptions;

  constructor(url: string | URL, options: HttpOptions = {}) {
    this.url = new URL(url);
    this.options = options;
  }
}

/** What a transport is made with besides {@link HttpOptions}. */
export interface TransportSettings extends HttpOptions {
  readonly sessionId?: string | undefined;
  readonly protocolVersion?: string | undefined;
  /** The SDKs' `OAuthClientProvider`. */
  readonly authProvider?: object | undefined;
}

/** A Streamable HTTP transport of the SDK's major, with our byte edge in its `fetch`. */
export async function makeHttpTransport(
  major: Major,
  url: URL,
  settings: TransportSettings,
): Promise<HttpTransport> {
  const { headers, fetch, sessionId, protocolVersion, authProvider } = settings;
  const options = {
    fetch: edgeFetch(fetch),
    ...(headers && { requestInit: { headers } }),
    ...(sessionId !== undefined && { sessionId }),
    ...(authProvider && { authProvider: authProvider as never }),
  };
  const transport = await construct(major, url, options);
  edged.add(transport);
  if (protocolVersion !== undefined) transport.setProtocolVersion(protocolVersion);
  return transport;
}

/** What both majors' Streamable HTTP client transports have beyond any transport. */
export interface HttpTransport extends TransportLike {
  setProtocolVersion(version: string): void;
  resumeStream(lastEventId: string): Promise<void>;
  terminateSession(): Promise<void>;
  finishAuth(code: string): Promise<void>;
}

async function construct(major: Major, url: URL, options: object): Promise<HttpTransport> {
  const { StreamableHTTPClientTransport } =
    major === 'v2'
      ? await loadSdk('@modelcontextprotocol/client', () => import('@modelcontextprotocol/client'))
      : await loadSdk(
          '@modelcontextprotocol/sdk',
          () => import('@modelcontextprotocol/sdk/client/streamableHttp.js'),
        );
  return new StreamableHTTPClientTransport(url, options) as unknown as HttpTransport;
}

const edged = new WeakSet<TransportLike>();

/** True for a transport that was made with our byte edge. */
export function hasHttpEdge(transport: TransportLike): boolean {
  return edged.has(transport);
}
