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

  /** Does `job`, unless closed. */
  async run<T>(job: () => Promise<T>): Promise<T> {
    if (this.#closing) throw this.#refusal();
    this.#count++;
    try {
      return await job();
    } finally {
      if (--this.#count === 0) this.#done?.();
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
