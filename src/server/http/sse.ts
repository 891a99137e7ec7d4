import type { Message } from '../../wire/index.ts';
import type { ServerEventSource } from '../events.ts';

/** An open stream of server-sent events to a client. */
export interface EventStream {
  /** Sends a message as one event. Without a message, the event only carries its id. */
  event(message: Message | undefined, id?: string): void;
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

/** Creates an event stream over the functions that write to a response and end it. */
export function eventStream(gone: AbortSignal, write: (text: string) => void, end: () => void): EventStream {
  const writeOpen = (text: string): void => {
    if (!gone.aborted) write(text);
  };
  return {
    gone,
    event(message, id) {
      const place = id === undefined ? '' : `id: ${id}\nretry: ${RETRY}\n`;
      writeOpen(`event: message\n${place}data: ${message ? JSON.stringify(message) : ''}\n\n`);
    },
    beat: () => writeOpen(': still here\n\n'),
    end() {
      if (!gone.aborted) end();
    },
  };
}

/** How many messages are kept. A stream sends them immediately, while an SDK that responds with JSON sends none of them. */
const MAX_MESSAGES = 1000;
/** The maximum number of bytes that are kept. */
const MAX_BYTES = 1024 * 1024;

/**
 * The messages that a call has sent besides its answer and that its SDK has not written yet.
 *
 * If a question takes the answer's place, they are sent before it.
 */
export class UnsentMessages {
  readonly #events: ServerEventSource;
  #messages: Message[] = [];
  readonly #sizes: number[] = [];
  #bytes = 0;
  #isFull = false;

  constructor(events: ServerEventSource) {
    this.#events = events;
  }

  add(message: Message): void {
    const size = JSON.stringify(message).length;
    if (this.#messages.length < MAX_MESSAGES && this.#bytes + size <= MAX_BYTES) {
      this.#bytes += size;
      this.#messages.push(message);
      this.#sizes.push(size);
      return;
    }
    if (this.#isFull) return;
    this.#isFull = true;
    const reason = this.#messages.length < MAX_MESSAGES ? 'bytes' : 'count';
    this.#events.emit('rejected', { family: 'flows', what: 'messages before a question', reason });
  }

  /** Removes the messages that the SDK has written to the call's stream. It writes each on a line of its own. */
  written(chunk: unknown): void {
    if (this.#messages.length === 0) return;
    const text = chunk instanceof Uint8Array ? Buffer.from(chunk).toString('utf8') : String(chunk);
    const count = text.match(/^data:.*\S/gm)?.length ?? 0;
    this.#messages.splice(0, count);
    for (const size of this.#sizes.splice(0, count)) this.#bytes -= size;
  }

  /** Returns and clears the messages that have not been written yet. */
  take(): readonly Message[] {
    const messages = this.#messages;
    this.#messages = [];
    this.#sizes.length = 0;
    this.#bytes = 0;
    return messages;
  }
}
