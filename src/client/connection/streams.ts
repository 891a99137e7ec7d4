import { type AnswerWatch, requestIn } from '../../edge/fetch.ts';
import { type Id, INTRODUCTIONS } from '../../wire/index.ts';
import type { ClientPart, Connection } from '../connection.ts';
import { emptyResponse, type HttpMiddleware, type HttpTransport } from './http.ts';

/** How often the SDKs' transports try to resume a stream by default. */
const TRIES = 2;
/** How long to wait for a response on an open standalone stream, in milliseconds. Some servers respond there. */
const GRACE = 10_000;

/** The error of a call whose response can no longer arrive. */
export const CUT = {
  code: -32_000,
  message:
    'The connection broke off before the call was answered. The server may have carried it out: look before calling again.',
} as const;

/** The error of a call that its server accepted as if it needed no response. */
const ACCEPTED = {
  code: CUT.code,
  message:
    'The server accepted this without a response (202), and none can arrive. It may have carried it out: look before calling again.',
} as const;

/** Whether an error says that the response of a call can no longer arrive. */
export function isCut(error: object): boolean {
  return error === CUT || error === ACCEPTED;
}

/** A call whose stream is being resumed. */
interface Resumed {
  readonly id: Id;
  failures: number;
}

/**
 * Ends calls whose response can no longer arrive, because its stream is over and cannot be resumed. The SDKs would wait
 * until their timeout, and there may be none.
 */
export class Unanswered implements ClientPart {
  #connection: Connection | undefined;
  /** The calls whose stream the SDK resumes, by the id of the event it resumes after. */
  readonly #resumed = new Map<string, Resumed>();

  /** The number of open standalone streams. */
  #standing = 0;
  readonly #standalone: (init: RequestInit) => AnswerWatch | undefined;

  /** `standalone` returns what watches a request if that request opens a standalone stream. */
  constructor(standalone: (init: RequestInit) => AnswerWatch | undefined) {
    this.#standalone = standalone;
  }

  opening(connection: Connection): void {
    this.#connection = connection;
  }

  /** Watches the response to a request, or a standalone stream. */
  readonly watch = (init: RequestInit): AnswerWatch | undefined => {
    const from = init.method === 'GET' ? resumedFrom(init.headers) : undefined;
    const resumed = from === undefined ? undefined : this.#resumed.get(from);
    if (init.method !== 'POST' && !resumed) return this.#watchStandalone(this.#standalone(init));
    let lastEventId: string | undefined;
    return {
      read(id) {
        lastEventId = id;
      },
      ended: () => {
        if (from !== undefined) this.#resumed.delete(from);
        // The events of the stream reach the SDK in this turn of the event loop.
        setImmediate(() => {
          // Usually all calls are answered, so the body need not be parsed to find the call.
          if (this.#connection?.waiting.size) this.#ended(resumed?.id ?? requestIn(init), lastEventId, init);
        });
      },
    };
  };

  #watchStandalone(other: AnswerWatch | undefined): AnswerWatch | undefined {
    if (!other) return undefined;
    this.#standing += 1;
    return {
      read: (id) => other.read(id),
      skipped: () => other.skipped?.(),
      ended: () => {
        this.#standing -= 1;
      },
    };
  }

  /** Handles requests that get no response, including because the connection breaks, and those that resume streams. */
  readonly http: HttpMiddleware = async ({ init, headers }, next) => {
    if (init.method !== 'POST') {
      const from = init.method === 'GET' ? resumedFrom(headers) : undefined;
      const resumed = from === undefined ? undefined : this.#resumed.get(from);
      return from !== undefined && resumed ? this.#resume(next(), from, resumed) : next();
    }
    try {
      const response = await next();
      // This status means that no response follows, so one can only arrive on another stream.
      if (response.status === 202)
        setImmediate(() => this.#ended(requestIn(init), undefined, init, ACCEPTED));
      return response;
    } catch (error) {
      return this.#unanswered(error, init);
    }
  };

  /** Ends a call that had been sent when the connection broke, like one whose response is cut off. */
  #unanswered(error: unknown, init: RequestInit): Response {
    const connection = this.#connection;
    const id = brokeOff(error) ? requestIn(init) : undefined;
    const call = id === undefined ? undefined : connection?.waiting.get(id);
    if (!connection || !call || call.isGivenUp || INTRODUCTIONS.has(call.method)) throw error;
    setImmediate(() => connection.receive({ jsonrpc: '2.0', id: call.wireId, error: CUT }));
    // The SDK sees 202, as for a message without a response, because the call receives its own error.
    return emptyResponse(202);
  }

  async #resume(answer: Promise<Response>, from: string, resumed: Resumed): Promise<Response> {
    const failed = (tries = TRIES): void => {
      resumed.failures += 1;
      if (resumed.failures < tries) return;
      this.#resumed.delete(from);
      this.#ended(resumed.id, undefined);
    };
    try {
      const response = await answer;
      // 405 means that the server has no such streams, and the SDKs do not retry.
      if (!response.ok) failed(response.status === 405 ? 1 : TRIES);
      else if (!isStream(response)) failed(1);
      return response;
    } catch (error) {
      failed();
      throw error;
    }
  }

  closed(): void {
    this.#connection = undefined;
    this.#resumed.clear();
  }

  #ended(
    id: Id | undefined,
    lastEventId: string | undefined,
    { signal }: RequestInit = {},
    error: typeof CUT | typeof ACCEPTED = CUT,
    grace = this.#standing > 0 ? GRACE : 0,
  ): void {
    const connection = this.#connection;
    const call = id === undefined ? undefined : connection?.waiting.get(id);
    // These streams may end with or without a response, and the SDK handles both.
    if (!connection || !call || call.cancelled || call.movedOn || call.method === 'subscriptions/listen')
      return;
    // The SDK aborted the request, which is how 2026-07-28 cancels.
    if (signal?.aborted) call.leave('cancelled');
    else if (lastEventId !== undefined) this.#resumed.set(lastEventId, { id: call.wireId, failures: 0 });
    else if (grace > 0) setTimeout(() => this.#ended(call.wireId, undefined, {}, error, 0), grace).unref();
    else connection.receive({ jsonrpc: '2.0', id: call.wireId, error });
  }
}

/** Whether an existing connection has broken. */
function brokeOff(error: unknown): boolean {
  const cause = error instanceof Error ? (error.cause as { readonly code?: unknown } | undefined) : undefined;
  return cause?.code === 'ECONNRESET' || cause?.code === 'UND_ERR_SOCKET' || cause?.code === 'EPIPE';
}

function isStream({ headers }: Response): boolean {
  return headers.get('content-type')?.startsWith('text/event-stream') === true;
}

function resumedFrom(headers: RequestInit['headers']): string | undefined {
  return new Headers(headers).get('last-event-id') ?? undefined;
}

const FIRST_PAUSE = 500;
const LONGEST_PAUSE = 60_000;

/** The standalone stream of a session, on which the server can send first. Tracks its position and reopens it. */
export class StandaloneStream {
  transport: HttpTransport | undefined;
  lastEventId: string | undefined;
  readonly #store: (lastEventId: string) => Promise<void>;
  #storing: Promise<void> | undefined;
  #pause = FIRST_PAUSE;
  #timer: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(store: (lastEventId: string) => Promise<void>) {
    this.#store = store;
  }

  /** Opens the stream after the last event that was read, or at its current position. */
  open(): void {
    // The transport reports its errors, and the middleware of the session opens the stream again.
    this.transport?.resumeStream('').catch(() => undefined);
  }

  /** Opens the stream later, when the process that has it may be gone. The previous process usually is immediately. */
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
    this.#storing ??= this.#storeLatest().finally(() => {
      this.#storing = undefined;
    });
  }

  async #storeLatest(): Promise<void> {
    for (let stored: string | undefined; stored !== this.lastEventId; ) {
      stored = this.lastEventId;
      if (stored !== undefined) await this.#store(stored);
    }
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
  }

  /** Watches the stream. A stream that resumes from another event id belongs to one call. */
  watch({ method, headers }: RequestInit, skipped: () => void): AnswerWatch | undefined {
    if (method !== 'GET') return undefined;
    const from = new Headers(headers).get('last-event-id');
    return from === null || from === this.lastEventId ? { read: (id) => this.read(id), skipped } : undefined;
  }
}
