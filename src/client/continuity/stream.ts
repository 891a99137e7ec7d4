import type { HttpTransport } from '../http.ts';
import { statusOf } from './lost.ts';

const FIRST_PAUSE = 500;
const LONGEST_PAUSE = 60_000;

/** The standalone stream of a session, by which the server speaks first: where it stands, and how it is opened again. */
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

  /** Opens it behind the last event that was read, or where it is. */
  open(): void {
    // The transport tells its errors by itself; none of them is a reason not to go on.
    this.transport?.resumeStream(this.lastEventId ?? '').catch((error: unknown) => {
      // Where the session is over, the next one opens its own stream.
      if (statusOf(error) !== 404) this.openLater();
    });
  }

  /** Opens it when whoever has it may be gone: the process before this one usually is at once. */
  openLater(): void {
    if (this.#closed) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.open(), this.#pause).unref();
    this.#pause = Math.min(this.#pause * 2, LONGEST_PAUSE);
  }

  /** Notes an event. However many come, one write is under way. */
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
}
