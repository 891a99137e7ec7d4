/** How many requests share a signal. */
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

  /** The request that it was lent to is over, with all of its answer. */
  giveBack(): void {
    this.#out--;
    if (this.#out === 0 && this.isUsedUp) this.#others.delete(this);
  }

  /** Gives it back once nothing can be read of the answer any more. */
  giveBackAfter(response: Response): void {
    unread.register(response, this);
  }

  abort(reason: unknown): void {
    this.#controller.abort(reason);
  }
}

const unread = new FinalizationRegistry<LentSignal>((lent) => lent.giveBack());

/**
 * Lends requests signals that end with the transport's. A transport has one signal for all that it ever sends, and Node's
 * `fetch` leaves a listener on it for each request until that is collected, and goes through all of them with each:
 * thousands on a busy client, and Node warns of a leak.
 */
export class LentSignals {
  #source: AbortSignal | undefined;
  #all: Set<LentSignal> | undefined;
  #latest: LentSignal | undefined;

  /** One that ends with `source`; undefined where that will do, as where it is for this one request. */
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
