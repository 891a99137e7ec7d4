import type { Call } from '../call.ts';

/** Runs the calls of a session one at a time. */
export class Queue {
  readonly #under = new Map<Call, () => void>();
  #last: Promise<void> | undefined;

  /** Waits until it is the call's turn. */
  enter(call: Call): Promise<void> | undefined {
    const before = this.#last;
    let leave = (): void => {};
    const mine = new Promise<void>((resolve) => {
      leave = resolve;
    });
    const last = before ? before.then(() => mine) : mine;
    this.#last = last;
    void last.then(() => {
      if (this.#last === last) this.#last = undefined;
    });
    this.#under.set(call, leave);
    return before;
  }

  /** Removes a call that has been answered, or that the caller has given up on. */
  leave(call: Call): void {
    const leave = this.#under.get(call);
    this.#under.delete(call);
    leave?.();
  }

  /** The calls that have not been answered. */
  get waiting(): Iterable<Call> {
    return this.#under.keys();
  }
}
