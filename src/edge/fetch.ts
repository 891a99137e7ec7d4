import { AsyncVariable } from '../core/async-context.ts';
import { ValiseError } from '../core/errors.ts';
import { type Id, isId } from '../core/message.ts';
import { parseLowered, restoreRaw } from './drafts.ts';
import { exceed, limitBody, MAX_DOCUMENT, MAX_MESSAGE, type MessageLimit, tooLargeAnswer } from './limit.ts';
import { lowerSse } from './sse.ts';

/** A `fetch` function as both SDK majors accept it. */
export type FetchLike = (url: string | URL, init?: RequestInit) => Promise<Response>;

/** Instructions of an outgoing message for the HTTP request that carries it. */
export interface HttpHints {
  /** Headers to add if the request does not have them. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Receives the messages of a 200 response to a POST that contains only a response. The SDKs' transports discard them. */
  readonly onReply?: (reply: Response) => void;
  /** Called with the HTTP response before the SDK receives it. */
  readonly onResponse?: (response: Response) => void;
  /** The message itself, or an object that represents it. Messages on the stream of the response belong to it. */
  readonly origin?: object;
}

/** Observes an HTTP response. */
export interface AnswerWatch {
  /** Called when whole events of the stream have been read, with the last id among them. */
  read(lastEventId: string): void;
  /** Called when an event has an id that is too long to be sent back. */
  skipped?(): void;
  /** Called when the response has ended or was interrupted. Its messages may still be passing through the SDK. */
  ended?(): void;
}

const requestHints = new AsyncVariable<HttpHints>();

/** Runs `send` so that the `fetch` it leads to follows the hints. The body does not have to be parsed for that. */
export function withHints<T>(hints: HttpHints, send: () => T): T {
  return requestHints.run(hints, send);
}

/** Returns the hints of the HTTP request whose response contained the current message. */
export function currentHints(): HttpHints | undefined {
  return requestHints.current;
}

/** Runs `work` without hints, because the messages it sends are unrelated to the message that triggered it. */
export function withoutHints<T>(work: () => T): T {
  return requestHints.run(undefined, work);
}

/**
 * Creates a `fetch` for the transport of either SDK major that converts the messages of family R to and from the
 * SDK-safe form, and rejects messages larger than `limit`. `watch` may observe the response to a request.
 */
export function edgeFetch(
  base: FetchLike = fetch,
  watch?: (init: RequestInit) => AnswerWatch | undefined,
  limit: MessageLimit = { maxBytes: MAX_MESSAGE },
): FetchLike {
  const signals = new RequestSignals();
  const streams = new Streams(limit);
  return async (url, init = {}) => {
    // With 405, a server says that it has no such stream. Both SDKs then stop; otherwise they would request it forever.
    if (streams.isCutOff(init)) return new Response(null, { status: 405 });
    const hints = requestHints.current;
    const own = signals.follow(init.signal);
    let response: Response;
    try {
      response = await base(url, outgoing(init, hints, own));
    } catch (error) {
      own?.release();
      throw error;
    }
    hints?.onResponse?.(response);
    if (!response.body || response.status === 202) {
      own?.release();
      return response;
    }
    lowerResponse(response, streams, init, watch && (() => watch(init)), own);
    if (hints?.onReply && response.status === 200) {
      hints.onReply(response);
      return new Response(null, { status: 202 });
    }
    return response;
  };
}

function outgoing(
  init: RequestInit,
  hints: HttpHints | undefined,
  own: RequestSignal | undefined,
): RequestInit {
  const body = typeof init.body === 'string' ? restoreRaw(init.body) : init.body;
  const headers = hints?.headers ? withHeaders(init.headers, hints.headers) : init.headers;
  if (body === init.body && headers === init.headers && !own) return init;
  return {
    ...init,
    ...(headers && { headers }),
    ...(own && { signal: own.signal }),
    body: body ?? null,
  };
}

/** Returns the headers with others added, unless they are already present. */
function withHeaders(given: RequestInit['headers'], added: Readonly<Record<string, string>>): Headers {
  const headers = new Headers(given);
  for (const [name, value] of Object.entries(added)) if (!headers.has(name)) headers.set(name, value);
  return headers;
}

/** Changes the response in place. Nothing is copied, and an unread body is not read. */
function lowerResponse(
  response: Response,
  streams: Streams,
  init: RequestInit,
  watch: (() => AnswerWatch | undefined) | undefined,
  own: RequestSignal | undefined,
): void {
  const type = response.headers.get('content-type') ?? '';
  if (type.startsWith('text/event-stream') && response.ok) {
    const body = response.body && lowerStream(response.body, streams.follow(init), watch?.(), own);
    Object.defineProperty(response, 'body', { configurable: true, get: () => body });
    return;
  }
  own?.releaseAfter(response);
  const { limit } = streams;
  limitBody(response, limit, response.ok ? limit.maxBytes : Math.min(limit.maxBytes, MAX_DOCUMENT));
  if (type.startsWith('application/json')) {
    Object.defineProperty(response, 'json', {
      configurable: true,
      value: () => lowerJson(response, watch?.()),
    });
  }
}

async function lowerJson(response: Response, watch: AnswerWatch | undefined): Promise<unknown> {
  let text: string;
  try {
    text = await response.text();
  } catch (error) {
    if (!watch?.ended || isTooLarge(error)) throw error;
    watch.ended();
    // There is no message to return. The watcher knows the outcome of the call.
    return [];
  }
  watch?.ended?.();
  return parseLowered(text);
}

function lowerStream(
  body: ReadableStream<Uint8Array<ArrayBuffer>>,
  { read, maxBytes, exceeded }: Followed,
  watch: AnswerWatch | undefined,
  own: RequestSignal | undefined,
): ReadableStream<Uint8Array<ArrayBuffer>> {
  return lowerSse(body, {
    maxBytes,
    exceeded,
    read(id) {
      read(id);
      watch?.read(id);
    },
    skipped: () => watch?.skipped?.(),
    ended() {
      own?.release();
      watch?.ended?.();
    },
  });
}

function isTooLarge(error: unknown): boolean {
  return error instanceof ValiseError && error.code === 'too-large';
}

/** Observes one stream. */
interface Followed {
  readonly maxBytes: number;
  read(lastEventId: string): void;
  exceeded(): string | Error;
}

/** The maximum number of ended or cut-off streams to remember. */
const MAX_STREAMS = 1000;

/** Tracks which request each stream answers, so that the request can be told that its response is too large. */
class Streams {
  readonly limit: MessageLimit;
  /** The request that a stream answers, by the last event that was read from it. The SDKs resume streams after that event. */
  readonly #requests = new Map<string, Id>();
  /** The events after which a stream was cut off. */
  readonly #cutOff = new Set<string>();

  constructor(limit: MessageLimit) {
    this.limit = limit;
  }

  /** Whether a request would resume a stream that was cut off, and so receive the same message again. */
  isCutOff({ method, headers }: RequestInit): boolean {
    if (method !== 'GET' || this.#cutOff.size === 0) return false;
    return this.#cutOff.has(new Headers(headers).get('last-event-id') ?? '');
  }

  follow(init: RequestInit): Followed {
    const from = init.method === 'GET' ? (new Headers(init.headers).get('last-event-id') ?? '') : '';
    let last = from;
    let known = this.#requests.get(from);
    const request = (): Id | undefined => (known ??= init.method === 'GET' ? undefined : requestIn(init));
    return {
      maxBytes: this.limit.maxBytes,
      read: (lastEventId) => {
        const id = request();
        if (id !== undefined) {
          this.#requests.delete(last);
          this.#requests.set(lastEventId, id);
          dropOldest(this.#requests);
        }
        last = lastEventId;
      },
      exceeded: () => {
        const error = exceed(this.limit, 'event');
        const id = request();
        if (last !== '') this.#cutOff.add(last);
        dropOldest(this.#cutOff);
        if (id === undefined) return error;
        const answer = { jsonrpc: '2.0', id, error: tooLargeAnswer(error, this.limit.maxBytes) };
        return `data: ${JSON.stringify(answer)}\n\n`;
      },
    };
  }
}

function dropOldest(known: Map<string, unknown> | Set<string>): void {
  if (known.size <= MAX_STREAMS) return;
  const [oldest] = known.keys();
  known.delete(oldest as string);
}

/** How requests of both SDKs end. The text before the last bracket is a member of the message itself. */
const NUMBER_AT_END = /,"id":(\d{1,15})\}$/;

/** Returns the id of the request in a body, or undefined for a response, whose id is the server's. */
export function requestIn({ body }: RequestInit): Id | undefined {
  if (typeof body !== 'string') return undefined;
  const last = body.startsWith('{"method":') ? NUMBER_AT_END.exec(body.slice(-24))?.[1] : undefined;
  if (last !== undefined) return Number(last);
  const message = JSON.parse(body) as { readonly id?: unknown; readonly method?: unknown };
  return message.method !== undefined && isId(message.id) ? message.id : undefined;
}

/** The signal of one request. */
class RequestSignal {
  readonly #controller = new AbortController();
  readonly #open: Set<RequestSignal>;

  constructor(open: Set<RequestSignal>) {
    this.#open = open;
    open.add(this);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  abort(reason: unknown): void {
    this.#controller.abort(reason);
  }

  /** Call this when the request is over, including its whole response. */
  release(): void {
    this.#open.delete(this);
  }

  /** Releases the signal once the response has been garbage collected, so that nothing more can be read from it. */
  releaseAfter(response: Response): void {
    unread.register(response, this);
  }
}

const unread = new FinalizationRegistry<RequestSignal>((signal) => signal.release());

/**
 * Gives each request a signal that aborts with the transport's signal. A transport has one signal for everything it ever
 * sends. Node's `fetch` leaves a listener on it for each request until that is collected, and walks all of them for each
 * request: thousands on a busy client, and Node warns of a leak.
 */
class RequestSignals {
  #source: AbortSignal | undefined;
  #open: Set<RequestSignal> | undefined;

  /**
   * Returns a signal that aborts with `source`, or undefined if `source` itself can be used, such as when it serves
   * only this request.
   */
  follow(source: AbortSignal | null | undefined): RequestSignal | undefined {
    if (!source || source.aborted) return undefined;
    if (source !== this.#source) {
      this.#source = source;
      this.#open = undefined;
      return undefined;
    }
    this.#open ??= openRequests(source);
    return new RequestSignal(this.#open);
  }
}

function openRequests(source: AbortSignal): Set<RequestSignal> {
  const open = new Set<RequestSignal>();
  const abort = (): void => {
    for (const signal of open) signal.abort(source.reason);
  };
  source.addEventListener('abort', abort, { once: true });
  return open;
}
