/** What an error of Valise carries besides its message. */
export interface ValiseErrorOptions {
  /** What the caller can do about it; becomes the last sentence of the message. */
  readonly next?: string;
  /** Of a failed write to a store: whether it has certainly not happened, or may have. */
  readonly outcome?: 'not-done' | 'unknown' | undefined;
  readonly cause?: unknown;
}

let watch: ((error: ValiseError) => void) | undefined;

/** Has `watcher` told of each error that gives advice, when it is made; there is one watcher. */
export function watchErrors(watcher: (error: ValiseError) => void): void {
  watch = watcher;
}

/**
 * The one family of errors that Valise throws. `code` is stable across releases and meant for `switch`;
 * the message says what happened, to what, and the next step, and is meant for people.
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
  readonly code: string;
  readonly next: string | undefined;
  /** Of a failed write to a store: whether it has certainly not happened (repeating it is safe), or may have. */
  readonly outcome: 'not-done' | 'unknown' | undefined;
  readonly #what: string;

  constructor(code: string, message: string, { next, outcome, cause }: ValiseErrorOptions = {}) {
    super(next === undefined ? message : `${message} ${next}`, cause === undefined ? undefined : { cause });
    this.name = new.target.name;
    this.code = code;
    this.next = next;
    this.outcome = outcome;
    this.#what = message;
    if (next !== undefined) watch?.(this);
  }

  /** The message without the next step. */
  get what(): string {
    return this.#what;
  }
}

/** What went wrong, in the words of whatever was thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
