import { compose, type Middleware } from '../../core/compose.ts';
import type { FetchLike } from '../../link/edge-fetch.ts';

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
