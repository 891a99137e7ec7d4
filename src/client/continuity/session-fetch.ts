import type { AnswerWatch, FetchLike } from '../../link/edge-fetch.ts';

/** What the requests of a connection must know of its session, and whom they tell about it. */
export interface SessionSeat {
  /** The session that requests belong to. */
  readonly sessionId: string | undefined;
  /** The host has ended the session. */
  ended(): void;
  /** Where the standalone stream stands. */
  readonly lastEventId: string | undefined;
  /** The standalone stream has been read up to this event. */
  read(lastEventId: string): void;
  /** The standalone stream has an event whose id is too long to go on behind it. */
  skipped?(): void;
  /** Another process, or the one before this, has the session's standalone stream. */
  streamTaken(): void;
}

const SESSION = 'mcp-session-id';
const LAST_EVENT = 'last-event-id';

/**
 * A `fetch` for MCP's own requests that decides which session each belongs to: what the SDK's transport thinks of it
 * is one session behind where a new one has begun.
 */
export function sessionFetch(base: FetchLike, seat: SessionSeat): FetchLike {
  return (url, init = {}) => {
    const headers = init.headers instanceof Headers ? init.headers : new Headers(init.headers);
    const { sessionId } = seat;
    if (sessionId === undefined) headers.delete(SESSION);
    else headers.set(SESSION, sessionId);
    // A stream that v1 opens once more after a 401 would begin where it is by then, and not where we are.
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
  // By 405 a server says that it has no such stream, and that is what both SDKs take without complaint.
  return new Response(null, { status: 405 });
}

/** Follows the session's standalone stream; what opens with another event's id is the stream of one call. */
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
