import type { Message } from '../../wire/index.ts';
import type { ServerEventSource } from '../events.ts';
import { messagesIn } from './sse.ts';

/** How many messages are kept. A stream sends them immediately, while an SDK that responds with JSON sends none of them. */
const MOST = 1000;
/** The maximum number of bytes that are kept. */
const MOST_BYTES = 1024 * 1024;

/**
 * The messages that a call has sent besides its answer and that its SDK has not written yet.
 *
 * If a question takes the answer's place, they are sent before it.
 */
export class Notes {
  readonly #events: ServerEventSource;
  #waiting: string[] = [];
  #bytes = 0;
  #isTold = false;

  constructor(events: ServerEventSource) {
    this.#events = events;
  }

  add(message: Message): void {
    const text = JSON.stringify(message);
    if (this.#waiting.length < MOST && this.#bytes + text.length <= MOST_BYTES) {
      this.#bytes += text.length;
      this.#waiting.push(text);
      return;
    }
    if (this.#isTold) return;
    this.#isTold = true;
    const reason = this.#waiting.length < MOST ? 'bytes' : 'count';
    this.#events.emit('rejected', { family: 'rounds', what: 'messages before a question', reason });
  }

  /** Removes the messages that the SDK has written to the call's stream. */
  written(chunk: unknown): void {
    if (this.#waiting.length === 0) return;
    const text = chunk instanceof Uint8Array ? Buffer.from(chunk).toString('utf8') : String(chunk);
    for (const out of this.#waiting.splice(0, messagesIn('text/event-stream', text).length))
      this.#bytes -= out.length;
  }

  /** Returns and clears the messages that have not been sent yet, as texts. */
  take(): readonly string[] {
    const texts = this.#waiting;
    this.#waiting = [];
    this.#bytes = 0;
    return texts;
  }
}
