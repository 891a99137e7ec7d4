/**
 * Gives up a connection that is asked and says nothing for `limit` milliseconds. One timer watches over all calls and
 * is touched by none of them, since a timer for each costs as much as a small command itself.
 */
export class Watch {
  readonly #limit: number;
  readonly #giveUp: () => void;
  #open = 0;
  /** When the connection last had nothing to answer, or answered. */
  #alive = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(limit: number, giveUp: () => void) {
    this.#limit = limit;
    this.#giveUp = giveUp;
  }

  /** True where nothing waits for an answer. */
  get isIdle(): boolean {
    return this.#open === 0;
  }

  /** Asks, and settles as the answer does; a failure goes through `failed`. */
  follow<T>(ask: () => Promise<T>, failed: (error: unknown) => Promise<T>): Promise<T> {
    const answer = ask();
    if (this.#open++ === 0) this.#alive = performance.now();
    this.#timer ??= this.#wait(this.#limit);
    return answer.then(
      (value) => {
        this.#answered();
        return value;
      },
      (error: unknown) => {
        this.#answered();
        return failed(error);
      },
    );
  }

  /** Nothing will be asked any more. */
  close(): void {
    clearTimeout(this.#timer);
  }

  #answered(): void {
    this.#open--;
    this.#alive = performance.now();
  }

  #wait(ms: number): NodeJS.Timeout {
    return setTimeout(() => {
      this.#timer = undefined;
      if (this.isIdle) return;
      const left = this.#alive + this.#limit - performance.now();
      if (left <= 0) this.#giveUp();
      this.#timer = this.#wait(left > 0 ? left : this.#limit);
    }, ms).unref();
  }
}
