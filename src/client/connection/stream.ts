import type { AnswerWatch } from '../../link/edge-fetch.ts';
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
    // The transport reports its errors, and the middleware of the session opens the stream again.
    this.transport?.resumeStream('').catch(() => undefined);
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

  /** Watches the stream. A stream that resumes from another event id belongs to one call. */
  watch({ method, headers }: RequestInit, skipped: () => void): AnswerWatch | undefined {
    if (method !== 'GET') return undefined;
    const from = new Headers(headers).get('last-event-id');
    return from === null || from === this.lastEventId ? { read: (id) => this.read(id), skipped } : undefined;
  }
}
