import { AsyncVariable } from '../core/async-context.ts';
import { ValiseError } from '../core/errors.ts';
import { withTimeout } from '../store/kit/clock.ts';
import type { Store } from '../store/types.ts';
import type { Outcome } from '../wire/errors.ts';
import { noteOutcome } from './fault.ts';

/** How long all operations of one request together wait for a store that does not answer, in milliseconds. */
const LONGEST = 10_000;

/**
 * The time without an operation after which a request may wait again, in milliseconds. Streams that poll must outlive outages.
 */
const PAUSE = 500;

/** Measures how long a request has been waiting for a store that does not answer. An answer resets the time. */
class Waiting {
  #open = 0;
  #since = 0;
  #before = 0;
  #ended = 0;

  /** Begins an operation. Returns how many milliseconds it may take. */
  begin(): number {
    const now = performance.now();
    if (this.#open++ === 0) {
      this.#since = now;
      if (now - this.#ended > PAUSE) this.#before = 0;
    }
    return LONGEST - this.#before - (now - this.#since);
  }

  end(isAnswered: boolean): void {
    const now = performance.now();
    this.#open--;
    this.#ended = now;
    if (isAnswered) [this.#before, this.#since] = [0, now];
    else if (this.#open === 0) this.#before += now - this.#since;
  }
}

const waiting = new AsyncVariable<Waiting>();

/** Runs the work of one request, whose operations share the time that it may wait for the store. */
export function asRequest<Args extends unknown[], T>(work: (...args: Args) => T, ...args: Args): T {
  return waiting.run(new Waiting(), work, ...args);
}

/** Whether the current code is part of a request. */
export function isInRequest(): boolean {
  return waiting.current !== undefined;
}

/** Store errors that do not tell whether a write was done, unless they carry an outcome. */
const VAGUE: ReadonlySet<string> = new Set(['store-unavailable', 'store-failed']);

function outcomeOfWrite(error: unknown): Outcome {
  if (!(error instanceof ValiseError)) return 'unknown';
  return error.outcome ?? (VAGUE.has(error.code) ? 'unknown' : 'not-done');
}

const outcomeOfRead = (): Outcome => 'not-done';

/** Notified of each operation on the store, once it is set. */
export interface StoreWatch {
  done?: (milliseconds: number, error: unknown) => void;
}

/**
 * Wraps the store for use by a server's requests.
 *
 * A failure states whether a write was done, even if the driver does not say. No request waits longer than {@link LONGEST} for
 * a store that does not answer, however many operations it has.
 */
export function requestStore(store: Store, watch: StoreWatch = {}): Store {
  const run = <T>(work: () => Promise<T>, outcomeOf: (error: unknown) => Outcome): Promise<T> => {
    const request = waiting.current;
    const started = watch.done && performance.now();
    const end = (isAnswered: boolean, failure?: unknown): void => {
      request?.end(isAnswered);
      if (started !== undefined) watch.done?.(performance.now() - started, failure);
    };
    const left = request?.begin() ?? LONGEST;
    const working = left < 1 ? Promise.reject(late('not-done')) : begun(work);
    return (request ? withTimeout(working, left, tooLate) : working).then(
      (value) => {
        end(true);
        return value;
      },
      (error: unknown) => {
        noteOutcome(error, outcomeOf(error));
        end(isAnswer(error), error);
        throw error;
      },
    );
  };
  return {
    get: (key) => run(() => store.get(key), outcomeOfRead),
    put: (key, value, options) => run(() => store.put(key, value, options), outcomeOfWrite),
    delete: (key, options) => run(() => store.delete(key, options), outcomeOfWrite),
    list: (prefix, options) => run(() => store.list(prefix, options), outcomeOfRead),
    // A listing satisfies whoever may scan.
    scan: (prefix, options) =>
      run(() => (store.scan ?? store.list).call(store, prefix, options), outcomeOfRead),
    // A lease that was taken unnoticed expires by itself.
    lease: (key, ttl) => run(() => store.lease(key, ttl), outcomeOfRead),
    close: () => store.close(),
  };
}

/** Calls a store. One of the user's own may throw instead of rejecting. */
function begun<T>(work: () => Promise<T>): Promise<T> {
  try {
    return work();
  } catch (error) {
    return Promise.reject(error);
  }
}

/** Whether the store has answered, even if only with a refusal. */
function isAnswer(error: unknown): boolean {
  return error instanceof ValiseError && error.code !== 'store-unavailable';
}

function tooLate(): never {
  throw late('unknown');
}

function late(outcome: Outcome): ValiseError {
  return new ValiseError('store-unavailable', `The store did not answer within ${LONGEST / 1000} s.`, {
    next: 'Check that it runs and can be reached.',
    outcome,
  });
}
