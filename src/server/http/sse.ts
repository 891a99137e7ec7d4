/** A stream of server-sent events that is open towards a client. */
export interface EventStream {
  /** Sends one event; `data` is a JSON text, or nothing for an event that only tells its id. */
  event(data: string, id?: string): void;
  /** Sends something that means nothing, so that nobody on the way takes the stream for dead. */
  beat(): void;
  end(): void;
  /** Aborted once the client is gone or the stream has ended. */
  readonly gone: AbortSignal;
}

/** Headers of such a stream; the last one keeps nginx from holding events back. */
export const SSE_HEADERS = {
  'content-type': 'text/event-stream',
  'cache-control': 'no-cache, no-transform',
  connection: 'keep-alive',
  'x-accel-buffering': 'no',
} as const;

/** How soon a client whose stream has ended should come back, in milliseconds. */
const RETRY = 500;

/** What {@link EventStream.beat} sends: a comment. */
export const BEAT = ': still here\n\n';

/** One event as text. */
export function eventText(data: string, id?: string): string {
  return id === undefined
    ? `event: message\ndata: ${data}\n\n`
    : `event: message\nid: ${id}\nretry: ${RETRY}\ndata: ${data}\n\n`;
}

/** The messages in the body of an answer that an SDK made, as texts. */
export function messagesIn(type: string, body: string): string[] {
  if (type.startsWith('application/json')) return body === '' ? [] : [body];
  return body
    .split(/\r?\n\r?\n/)
    .map((event) =>
      event
        .split(/\r?\n/)
        .filter((line) => line.startsWith('data:'))
        .map((line) => line.slice(line[5] === ' ' ? 6 : 5))
        .join('\n'),
    )
    .filter((data) => data !== '');
}
