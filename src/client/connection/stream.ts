import type { AnswerWatch } from '../../link/edge-fetch.ts';
import { statusOf } from './errors.ts';
import { emptyResponse, type HttpMiddleware } from './fetch.ts';
import type { HttpTransport } from './http.ts';

const FIRST_PAUSE = 500;
const LONGEST_PAUSE = 60_000;

/** The standalone stream of a session, on which the server can send first. Tracks its position and reopens it. */
export class StandaloneStream {
  transport: HttpTransport | undefined;
  lastEventId: string | undefined;
  readonly #keep: (lastEventId: string) => Promise<void>;
  #keeping: Promise<void> | undefined;
  #pause = FIRST_PAUSE;
  #timer: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(keep: (lastEventId: string) => Promise<void>) {
    this.#keep = keep;
  }

  /** Opens the stream after the last event that was read, or at its current position. */
  open(): void {
    // The transport reports its errors itself, and none of them is a reason to give up.
    this.transport?.resumeStream(this.lastEventId ?? '').catch((error: unknown) => {
      // If the session is over, the next one opens its own stream.
      if (statusOf(error) !== 404) this.openLater();
    });
  }

  /** Opens the stream later, when its current holder may be gone. The previous process usually is immediately. */
  openLater(): void {
    if (this.#closed) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.open(), this.#pause).unref();
    this.#pause = Math.min(this.#pause * 2, LONGEST_PAUSE);
  }

  /** Records an event. Only one write is in progress at a time. */
  read(lastEventId: string): void {
    this.lastEventId = lastEventId;
    this.#pause = FIRST_PAUSE;
    this.#keeping ??= this.#keepLatest().finally(() => {
      this.#keeping = undefined;
    });
  }

  async #keepLatest(): Promise<void> {
    for (let kept: string | undefined; kept !== this.lastEventId; ) {
      kept = this.lastEventId;
      if (kept !== undefined) await this.#keep(kept);
    }
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
  }
}

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

/** Sets the session of each request. The SDK's transport is one session behind after a new one has started. */
export function sessionHttp(seat: SessionSeat): HttpMiddleware {
  return async ({ init, headers }, next) => {
    const { sessionId } = seat;
    if (sessionId === undefined) headers.delete(SESSION);
    else headers.set(SESSION, sessionId);
    // After a 401, v1 reopens the stream without a position, and would miss the events since ours.
    if (init.method === 'GET' && seat.lastEventId !== undefined && !headers.has(LAST_EVENT))
      headers.set(LAST_EVENT, seat.lastEventId);
    const response = await next();
    if (init.method === 'DELETE' && response.ok) seat.ended();
    if (init.method !== 'GET' || response.status !== 409) return response;
    seat.streamTaken();
    await response.body?.cancel();
    // 405 means that the server has no such stream, which both SDKs accept without an error.
    return emptyResponse(405);
  };
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
