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

  /** Does `job`, and gives what `read` makes of its result. Hot paths end here, so there is no promise too many. */
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

  /** Waits for what is under way, then does `end`, once. */
  close(end: () => Promise<void> | void): Promise<void> {
    this.#closing ??= new Promise<void>((resolve) => {
      if (this.#count === 0) resolve();
      else this.#done = resolve;
    }).then(end);
    return this.#closing;
  }
}
