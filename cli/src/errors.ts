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

/** An error in the command line itself. It ends the command with exit code 2. */
export class UsageError extends CommandError {
  constructor(code: string, what: string, options: CommandErrorOptions = {}) {
    super(code, what, options);
    this.name = 'UsageError';
  }
}

/** Runs a check of the library on a value from the command line, whose error is then one of the command line. */
export function checkUsage<Value>(check: () => Value): Value {
  try {
    return check();
  } catch (error) {
    if (!(error instanceof ValiseError)) throw error;
    const { code, what, next } = error;
    throw new UsageError(code, what, { cause: error, ...(next !== undefined && { next }) });
  }
}

/** Whether an error is written for people: what happened and the next step. */
export function isExplained(error: unknown): error is CommandError | ValiseError {
  return error instanceof CommandError || error instanceof ValiseError;
}
