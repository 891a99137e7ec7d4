/** An open stream of server-sent events to a client. */
export interface EventStream {
  /** Sends one event. `data` is a JSON text, or empty for an event that only carries its id. */
  event(data: string, id?: string): void;
  /** Sends a heartbeat, so that no intermediary considers the stream dead. */
  beat(): void;
  end(): void;
  /** Aborted once the client is gone or the stream has ended. */
  readonly gone: AbortSignal;
}

/** The headers of an event stream. The last one keeps nginx from buffering events. */
export const SSE_HEADERS = {
  'content-type': 'text/event-stream',
  'cache-control': 'no-cache, no-transform',
  connection: 'keep-alive',
  'x-accel-buffering': 'no',
} as const;

/** How soon a client should reconnect after its stream has ended, in milliseconds. */
const RETRY = 500;

/** The comment that {@link EventStream.beat} sends. */
export const BEAT = ': still here\n\n';

/** Returns one event as text. */
export function eventText(data: string, id?: string): string {
  return id === undefined
    ? `event: message\ndata: ${data}\n\n`
    : `event: message\nid: ${id}\nretry: ${RETRY}\ndata: ${data}\n\n`;
}

/** Returns the messages in the body of an SDK's response, as texts. */
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
