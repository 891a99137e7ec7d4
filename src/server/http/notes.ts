import type { Message } from '../../wire/index.ts';
import { messagesIn } from './sse.ts';

/** How many are kept: a stream brings them out at once, and what answers in JSON would bring out none at all. */
const MOST = 1000;

/**
 * What a call has sent besides its answer, and its SDK has not written yet. Where a question takes the answer's place,
 * it goes out before that.
 */
export class Notes {
  #waiting: Message[] = [];

  add(message: Message): void {
    if (this.#waiting.length < MOST) this.#waiting.push(message);
  }

  /** The SDK has written this to the call's stream. */
  written(chunk: unknown): void {
    if (this.#waiting.length === 0) return;
    const text = chunk instanceof Uint8Array ? Buffer.from(chunk).toString('utf8') : String(chunk);
    this.#waiting.splice(0, messagesIn('text/event-stream', text).length);
  }

  /** What is not out yet, as texts. */
  take(): readonly string[] {
    const texts = this.#waiting.map((message) => JSON.stringify(message));
    this.#waiting = [];
    return texts;
  }
}
