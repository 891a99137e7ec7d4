/** The number of requests that share a signal. */
const SHARED_BY = 32;

/** A signal for a few requests. */
export class LentSignal {
  readonly #controller = new AbortController();
  readonly #others: Set<LentSignal>;
  #given = 0;
  #out = 0;

  constructor(others: Set<LentSignal>) {
    this.#others = others;
    others.add(this);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  get isUsedUp(): boolean {
    return this.#given === SHARED_BY;
  }

  lend(): this {
    this.#given++;
    this.#out++;
    return this;
  }

  /** Call this when the request it was lent to is over, including its whole response. */
  giveBack(): void {
    this.#out--;
    if (this.#out === 0 && this.isUsedUp) this.#others.delete(this);
  }

  /** Gives the signal back once the response has been garbage collected, so that nothing more can be read from it. */
  giveBackAfter(response: Response): void {
    unread.register(response, this);
  }

  abort(reason: unknown): void {
    this.#controller.abort(reason);
  }
}

const unread = new FinalizationRegistry<LentSignal>((lent) => lent.giveBack());

/**
 * Lends signals that abort with the transport's signal. A transport has one signal for everything it ever sends. Node's
 * `fetch` leaves a listener on it for each request until that is collected, and walks all of them for each request:
 * thousands on a busy client, and Node warns of a leak.
 */
export class LentSignals {
  #source: AbortSignal | undefined;
  #all: Set<LentSignal> | undefined;
  #latest: LentSignal | undefined;

  /**
   * Returns a signal that aborts with `source`, or undefined if `source` itself can be used, such as when it serves
   * only this request.
   */
  lend(source: AbortSignal | null | undefined): LentSignal | undefined {
    if (!source || source.aborted) return undefined;
    if (source !== this.#source) {
      this.#source = source;
      this.#all = undefined;
      this.#latest = undefined;
      return undefined;
    }
    this.#all ??= followersOf(source);
    if (!this.#latest || this.#latest.isUsedUp) this.#latest = new LentSignal(this.#all);
    return this.#latest.lend();
  }
}

function followersOf(source: AbortSignal): Set<LentSignal> {
  const followers = new Set<LentSignal>();
  const abort = (): void => {
    for (const follower of followers) follower.abort(source.reason);
  };
  source.addEventListener('abort', abort, { once: true });
  return followers;
}
