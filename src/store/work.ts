import { closedError } from './check.ts';

/** Counts the calls under way, so that closing waits for them and later ones are refused. */
export class Work {
  readonly #refusal: () => Error;
  #count = 0;
  #closing: Promise<void> | undefined;
  #done: (() => void) | undefined;

  /** `refusal` makes the error of what comes too late. */
  constructor(refusal: () => Error = closedError) {
    this.#refusal = refusal;
  }

  get closed(): boolean {
    return this.#closing !== undefined;
  }

  /** Begins a call; throws where closed. `leave` must follow. */
  enter(): void {
    if (this.#closing) throw this.#refusal();
    this.#count++;
  }

  leave(): void {
    if (--this.#count === 0) this.#done?.();
  }

  /** Does `job` between `enter` and `leave`. */
  async run<T>(job: () => Promise<T>): Promise<T> {
    this.enter();
    try {
      return await job();
    } finally {
      this.leave();
    }
  }

  /** Waits for what is under way, then does `end`, once. */
  close(end: () => Promise<void> | void): Promise<void> {
    this.#closing ??= new Promise<void>((resolve) => {
      if (this.#count === 0) resolve();
      else this.#done = resolve;
    }).then(end);
    return this.#closing;
  }
}
