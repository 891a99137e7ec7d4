import { ValiseError } from 'mcp-valise/client';

/** The details of a {@link CommandError} besides its message. */
interface CommandErrorOptions {
  /** What the user can do about it. It becomes the last sentence of the message. */
  readonly next?: string;
  readonly cause?: unknown;
}

/** An error of a command, in the form of the library's errors but with codes of its own, which `--json` prints. */
export class CommandError extends Error {
  readonly code: string;
  /** The message without the `next` step. */
  readonly what: string;
  readonly next: string | undefined;

  constructor(code: string, what: string, { next, cause }: CommandErrorOptions = {}) {
    super(next === undefined ? what : `${what} ${next}`, cause === undefined ? undefined : { cause });
    this.name = 'CommandError';
    this.code = code;
    this.what = what;
    this.next = next;
  }
}

/** Whether an error is written for people: what happened and the next step. */
export function isExplained(error: unknown): error is CommandError | ValiseError {
  return error instanceof CommandError || error instanceof ValiseError;
}
