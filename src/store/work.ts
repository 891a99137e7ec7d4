import { closedError } from './check.ts';

/** Counts pending calls, so that closing waits for them and rejects later ones. */
export class Work {
  readonly #refusal: () => Error;
  #count = 0;
  #closing: Promise<void> | undefined;
  #done: (() => void) | undefined;

  /** `refusal` creates the error for calls after closing. */
  constructor(refusal: () => Error = closedError) {
    this.#refusal = refusal;
  }

  get closed(): boolean {
    return this.#closing !== undefined;
  }

  /** Runs `job` and returns the result of `read` on its value. This is a hot path, so it creates no extra promise. */
  run<T>(job: () => Promise<T>): Promise<T>;
  run<T, Result>(job: () => Promise<T>, read: (value: T) => Result): Promise<Result>;
  run<T, Result>(job: () => Promise<T>, read?: (value: T) => Result): Promise<T | Result> {
    if (this.#closing) return Promise.reject(this.#refusal());
    this.#count++;
    try {
      return job().then(
        (value) => {
          this.#leave();
          return read ? read(value) : value;
        },
        (error: unknown) => {
          this.#leave();
          throw error;
        },
      );
    } catch (error) {
      this.#leave();
      return Promise.reject(error);
    }
  }

  #leave(): void {
    if (--this.#count === 0) this.#done?.();
  }

  /** Waits for pending calls, then runs `end` once. */
  close(end: () => Promise<void> | void): Promise<void> {
    this.#closing ??= new Promise<void>((resolve) => {
      if (this.#count === 0) resolve();
      else this.#done = resolve;
    }).then(end);
    return this.#closing;
  }
}
