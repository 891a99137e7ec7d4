import { edgeFetch, type FetchLike } from '../link/edge-fetch.ts';
import { documentFetch, MAX_MESSAGE, type MessageLimit } from '../link/limit.ts';
import { StdioClientTransport } from '../link/stdio-client.ts';
import type { TransportLike } from '../link/transport.ts';
import { hasStdioEdge } from './stdio-edge.ts';

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
export function noteHttpEdge(transport: TransportLike): void {
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
export function bearerOf(headers: RequestInit['headers']): string | undefined {
  return /^(?:bearer|dpop) +(\S+)$/i.exec(headerOf(headers, 'authorization') ?? '')?.[1];
}

function headerOf(headers: RequestInit['headers'], name: string): string | null {
  return (headers instanceof Headers ? headers : new Headers(headers)).get(name);
}
