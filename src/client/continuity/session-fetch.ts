import type { AnswerWatch, FetchLike } from '../../link/edge-fetch.ts';

/** What the requests of a connection need to know about its session, and what they report about it. */
export interface SessionSeat {
  /** The session that requests belong to. */
  readonly sessionId: string | undefined;
  /** Called when the host has ended the session. */
  ended(): void;
  /** The position of the standalone stream. */
  readonly lastEventId: string | undefined;
  /** Called when the standalone stream has been read up to this event. */
  read(lastEventId: string): void;
  /** Called when the standalone stream has an event whose id is too long to resume after. */
  skipped?(): void;
  /** Called when another process, or the previous one, has the session's standalone stream. */
  streamTaken(): void;
}

const SESSION = 'mcp-session-id';
const LAST_EVENT = 'last-event-id';

/**
 * Returns a `fetch` for MCP requests that sets the session of each. The SDK's transport is one session behind after a new
 * one has started.
 */
export function sessionFetch(base: FetchLike, seat: SessionSeat): FetchLike {
  return (url, init = {}) => {
    const headers = init.headers instanceof Headers ? init.headers : new Headers(init.headers);
    const { sessionId } = seat;
    if (sessionId === undefined) headers.delete(SESSION);
    else headers.set(SESSION, sessionId);
    // After a 401, v1 reopens the stream without a position, and would miss the events since ours.
    if (init.method === 'GET' && seat.lastEventId !== undefined && !headers.has(LAST_EVENT))
      headers.set(LAST_EVENT, seat.lastEventId);
    const answered = base(url, headers === init.headers ? init : { ...init, headers });
    return init.method === 'POST' ? answered : answered.then((response) => seen(response, init, seat));
  };
}

async function seen(response: Response, { method }: RequestInit, seat: SessionSeat): Promise<Response> {
  if (method === 'DELETE' && response.ok) seat.ended();
  if (method !== 'GET' || response.status !== 409) return response;
  seat.streamTaken();
  await response.body?.cancel();
  // 405 means that the server has no such stream, which both SDKs accept without an error.
  return new Response(null, { status: 405 });
}

/** Watches the session's standalone stream. A stream that resumes from another event id belongs to one call. */
export function watchStandalone(
  { method, headers }: RequestInit,
  seat: SessionSeat,
): AnswerWatch | undefined {
  if (method !== 'GET') return undefined;
  const from = new Headers(headers).get(LAST_EVENT);
  return from === null || from === seat.lastEventId
    ? { read: (id) => seat.read(id), skipped: () => seat.skipped?.() }
    : undefined;
}
