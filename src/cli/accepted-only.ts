import { isObject } from '../json.ts';
import type { FetchLike } from '../link/edge-fetch.ts';

/**
 * A `fetch` in which a request that is answered with 202 has an answer that is over: by 202 a server says that it took
 * what needs no answer, and the SDKs would wait for one until their timeout. An empty stream in its place ends the call,
 * unless another stream brings the answer.
 */
export function acceptedOnly(base: FetchLike): FetchLike {
  return async (url, init = {}) => {
    const response = await base(url, init);
    if (response.status !== 202 || !isRequestText(init.body)) return response;
    const headers = new Headers(response.headers);
    headers.delete('content-length');
    headers.set('content-type', 'text/event-stream');
    return new Response('', { headers });
  };
}

function isRequestText(body: RequestInit['body']): boolean {
  if (typeof body !== 'string') return false;
  const message: unknown = JSON.parse(body);
  return isObject(message) && 'method' in message && 'id' in message;
}
