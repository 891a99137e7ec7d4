/** The signal of one request. */
export class RequestSignal {
  readonly #controller = new AbortController();
  readonly #open: Set<RequestSignal>;

  constructor(open: Set<RequestSignal>) {
    this.#open = open;
    open.add(this);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  abort(reason: unknown): void {
    this.#controller.abort(reason);
  }

  /** Call this when the request is over, including its whole response. */
  release(): void {
    this.#open.delete(this);
  }

  /** Releases the signal once the response has been garbage collected, so that nothing more can be read from it. */
  releaseAfter(response: Response): void {
    unread.register(response, this);
  }
}

const unread = new FinalizationRegistry<RequestSignal>((signal) => signal.release());

/**
 * Gives each request a signal that aborts with the transport's signal. A transport has one signal for everything it ever
 * sends. Node's `fetch` leaves a listener on it for each request until that is collected, and walks all of them for each
 * request: thousands on a busy client, and Node warns of a leak.
 */
export class RequestSignals {
  #source: AbortSignal | undefined;
  #open: Set<RequestSignal> | undefined;

  /**
   * Returns a signal that aborts with `source`, or undefined if `source` itself can be used, such as when it serves
   * only this request.
   */
  follow(source: AbortSignal | null | undefined): RequestSignal | undefined {
    if (!source || source.aborted) return undefined;
    if (source !== this.#source) {
      this.#source = source;
      this.#open = undefined;
      return undefined;
    }
    this.#open ??= openRequests(source);
    return new RequestSignal(this.#open);
  }
}

function openRequests(source: AbortSignal): Set<RequestSignal> {
  const open = new Set<RequestSignal>();
  const abort = (): void => {
    for (const signal of open) signal.abort(source.reason);
  };
  source.addEventListener('abort', abort, { once: true });
  return open;
}
