import { Course } from './course.ts';
import { lowerSse } from './edge-sse.ts';
import { type LentSignal, LentSignals } from './lent-signal.ts';
import { parseLowered, restoreRaw } from './top.ts';

/** `fetch` as both SDK majors take it. */
export type FetchLike = (url: string | URL, init?: RequestInit) => Promise<Response>;

/** What the message on its way out wants of the HTTP request that will carry it. */
export interface Errand {
  /** Headers to add where the request does not have them. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Takes the messages of a 200 answer to a POST of a mere response, which the SDKs' transports throw away. */
  readonly onReply?: (reply: Response) => void;
  /** Sees the HTTP answer before the SDK does. */
  readonly onResponse?: (response: Response) => void;
  /** The message itself, or what stands for it: what comes on the answer's stream belongs to it. */
  readonly origin?: object;
}

/** Follows an HTTP answer. */
export interface AnswerWatch {
  /** Whole events of its stream have been read, the last id among them is this. */
  read(lastEventId: string): void;
  /** It has ended, or broken off; what it brought may still be on its way through the SDK. */
  ended?(): void;
}

const errands = new Course<Errand>();

/** Runs `send` so that the `fetch` it leads to does the errand. No parsing of the body is needed to find it. */
export function withErrand<T>(errand: Errand, send: () => T): T {
  return errands.run(errand, send);
}

/** The errand on whose HTTP answer the present message came. */
export function currentErrand(): Errand | undefined {
  return errands.current;
}

/** Runs `work` on no errand: what it sends by itself has nothing to do with the message that brought it about. */
export function outsideErrand<T>(work: () => T): T {
  return errands.run(undefined, work);
}

/**
 * The client's byte edge over HTTP: a `fetch` for either major's transport that lets family R's messages through.
 * `watch` may follow what answers a request.
 */
export function edgeFetch(
  base: FetchLike = fetch,
  watch?: (init: RequestInit) => AnswerWatch | undefined,
): FetchLike {
  const signals = new LentSignals();
  return async (url, init = {}) => {
    const errand = errands.current;
    const lent = signals.lend(init.signal);
    let response: Response;
    try {
      response = await base(url, outgoing(init, errand, lent));
    } catch (error) {
      lent?.giveBack();
      throw error;
    }
    errand?.onResponse?.(response);
    if (!response.body || response.status === 202) {
      lent?.giveBack();
      return response;
    }
    lowerResponse(response, watch && (() => watch(init)), lent);
    if (errand?.onReply && response.status === 200) {
      errand.onReply(response);
      return new Response(null, { status: 202 });
    }
    return response;
  };
}

function outgoing(init: RequestInit, errand: Errand | undefined, lent: LentSignal | undefined): RequestInit {
  const body = typeof init.body === 'string' ? restoreRaw(init.body) : init.body;
  const headers = errand?.headers ? withHeaders(init.headers, errand.headers) : init.headers;
  if (body === init.body && headers === init.headers && !lent) return init;
  return {
    ...init,
    ...(headers && { headers }),
    ...(lent && { signal: lent.signal }),
    body: body ?? null,
  };
}

/** Headers with others added, where they are not among them. */
export function withHeaders(own: RequestInit['headers'], added: Readonly<Record<string, string>>): Headers {
  const headers = new Headers(own);
  for (const [name, value] of Object.entries(added)) if (!headers.has(name)) headers.set(name, value);
  return headers;
}

/** Changes the response in place: nothing is copied, and a body that nobody reads is not read. */
function lowerResponse(
  response: Response,
  watch: (() => AnswerWatch | undefined) | undefined,
  lent: LentSignal | undefined,
): void {
  const type = response.headers.get('content-type') ?? '';
  if (type.startsWith('text/event-stream')) {
    const body = response.body && lowerStream(response.body, watch?.(), lent);
    Object.defineProperty(response, 'body', { configurable: true, get: () => body });
    return;
  }
  lent?.giveBackAfter(response);
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
    if (!watch?.ended) throw error;
    watch.ended();
    // No message: whoever watches knows what becomes of the call.
    return [];
  }
  watch?.ended?.();
  return parseLowered(text);
}

function lowerStream(
  body: ReadableStream<Uint8Array<ArrayBuffer>>,
  watch: AnswerWatch | undefined,
  lent: LentSignal | undefined,
): ReadableStream<Uint8Array<ArrayBuffer>> {
  return lowerSse(body, {
    read: watch && ((id) => watch.read(id)),
    ended() {
      lent?.giveBack();
      watch?.ended?.();
    },
  });
}
