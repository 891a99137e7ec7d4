import { ValiseError } from '../core/errors.ts';

/** The unit that was too large: the body of a response, one server-sent event, or one line on stdio. */
export type Oversized = 'body' | 'event' | 'line';

/** The maximum size of a message from a peer. */
export interface MessageLimit {
  readonly maxBytes: number;
  /** Called for each message that was cut off, before the affected calls end. */
  exceeded?(what: Oversized, maxBytes: number): void;
}

/** The largest message that a client, or a server on stdio, accepts. */
export const MAX_MESSAGE = 64 * 1024 * 1024;

/** The largest response to an authorization request, and the largest body of an HTTP error. */
export const MAX_DOCUMENT = 1024 * 1024;

/** The JSON-RPC code for a message that is too large. Both SDKs use it for HTTP 413. */
const TOO_LARGE = -32_000;

const NAMES: Readonly<Record<Oversized, string>> = {
  body: 'a response body',
  event: 'a server-sent event',
  line: 'a line',
};

/** Returns the error that is thrown, or used as the response, when a peer sends more than the limit. */
export function tooLargeError(what: Oversized, maxBytes: number, who = 'The server'): ValiseError {
  return new ValiseError('too-large', `${who} sent ${NAMES[what]} of more than ${maxBytes} bytes.`, {
    next: 'The rest was not read. If messages of this size are expected, raise maxMessageBytes.',
  });
}

/** Returns the error of a JSON-RPC response that replaces a message that was too large. */
export function tooLargeAnswer({ code, message }: ValiseError, maxBytes: number): object {
  return { code: TOO_LARGE, message, data: { code, maxBytes } };
}

/** Calls the listener and returns the error. */
export function exceed(limit: MessageLimit, what: Oversized, maxBytes = limit.maxBytes): ValiseError {
  limit.exceeded?.(what, maxBytes);
  return tooLargeError(what, maxBytes);
}

const READERS = ['text', 'json', 'arrayBuffer', 'blob', 'bytes', 'formData'] as const;

/**
 * Makes every way to read the body of a response fail with `message-too-large` after `maxBytes`, and cancels the body
 * then. Changes the response in place. An uncompressed body with an announced length within the limit is not counted,
 * because HTTP clients do not return more than that.
 */
export function limitBody(response: Response, limit: MessageLimit, maxBytes = limit.maxBytes): void {
  const { body, headers } = response;
  if (!body) return;
  const announced = Number(headers.get('content-length') ?? Number.NaN);
  if (announced <= maxBytes && !headers.has('content-encoding')) return;
  let limited: ReadableStream<Uint8Array<ArrayBuffer>> | undefined;
  const counted = () => (limited ??= countedStream(body, () => exceed(limit, 'body', maxBytes), maxBytes));
  Object.defineProperty(response, 'body', { configurable: true, get: counted });
  const copy = () => new Response(counted(), { headers });
  for (const reader of READERS)
    Object.defineProperty(response, reader, { configurable: true, value: async () => copy()[reader]() });
  Object.defineProperty(response, 'clone', {
    configurable: true,
    value: () => {
      const [one, other] = counted().tee();
      limited = one;
      const { status, statusText } = response;
      return new Response(other, { status, statusText, headers });
    },
  });
}

/** Returns a `fetch` whose responses are limited to {@link MAX_DOCUMENT}, for discovery, registration and tokens. */
export function documentFetch<Fetch extends (...args: never[]) => Promise<Response>>(
  base: Fetch,
  limit: MessageLimit,
): Fetch {
  return (async (...args: Parameters<Fetch>) => {
    const response = await base(...args);
    limitBody(response, limit, Math.min(limit.maxBytes, MAX_DOCUMENT));
    return response;
  }) as Fetch;
}

function countedStream(
  body: ReadableStream<Uint8Array<ArrayBuffer>>,
  exceeded: () => Error,
  maxBytes: number,
): ReadableStream<Uint8Array<ArrayBuffer>> {
  const reader = body.getReader();
  let length = 0;
  return new ReadableStream(
    {
      async pull(controller) {
        const { done, value } = await reader.read();
        length += value?.length ?? 0;
        if (length > maxBytes) {
          const error = exceeded();
          void reader.cancel(error).catch(() => {});
          throw error;
        }
        if (done) controller.close();
        else controller.enqueue(value);
      },
      cancel: (reason) => reader.cancel(reason),
    },
    { highWaterMark: 0 },
  );
}
