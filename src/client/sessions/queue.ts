import type { Call } from '../call.ts';

/** Lets the calls of a session go one after another. */
export class Queue {
  readonly #under = new Map<Call, () => void>();
  #last: Promise<void> | undefined;

  /** Waits until the call's turn has come. */
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

  /** The call has been answered, or nobody waits for its answer any more. */
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
