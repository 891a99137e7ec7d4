import type { ValiseErrorCode } from './error-codes.ts';

/** The details of a {@link ValiseError} besides its message. */
export interface ValiseErrorOptions {
  /** What the caller can do about the error. It becomes the last sentence of the message. */
  readonly next?: string;
  /** For a failed write to a store: whether the write certainly did not happen, or may have. */
  readonly outcome?: 'not-done' | 'unknown' | undefined;
  readonly cause?: unknown;
}

let watch: ((error: ValiseError) => void) | undefined;

/** Registers the one watcher that is called for each new error that has a `next` step. */
export function watchErrors(watcher: (error: ValiseError) => void): void {
  watch = watcher;
}

/**
 * The base class of all errors that Valise throws. `code` is stable across releases and meant for `switch`. The message
 * is meant for people: what failed, with which value, and what to do.
 *
 * @example
 * ```ts
 * try {
 *   await openStore('sqlite:/read-only/state.db');
 * } catch (error) {
 *   if (error instanceof ValiseError && error.code === 'store-read-only') chooseAnotherFolder();
 *   else throw error;
 * }
 * ```
 */
export class ValiseError extends Error {
  readonly code: ValiseErrorCode;
  readonly next: string | undefined;
  /** For a failed write to a store: whether the write certainly did not happen (repeating it is safe), or may have. */
  readonly outcome: 'not-done' | 'unknown' | undefined;
  readonly #what: string;

  constructor(code: ValiseErrorCode, message: string, { next, outcome, cause }: ValiseErrorOptions = {}) {
    super(next === undefined ? message : `${message} ${next}`, cause === undefined ? undefined : { cause });
    this.name = new.target.name;
    this.code = code;
    this.next = next;
    this.outcome = outcome;
    this.#what = message;
    if (next !== undefined) watch?.(this);
  }

  /** The message without the `next` step. */
  get what(): string {
    return this.#what;
  }
}

/** Returns the message of a thrown value. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
