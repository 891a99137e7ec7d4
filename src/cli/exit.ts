/** The exit codes, in one place; documented in `valise --help` and docs/cli.md. */
export const EXIT = {
  /** Done. */
  ok: 0,
  /** The call, or the command, failed; the message says why. */
  failed: 1,
  /** The command line could not be understood. */
  usage: 2,
  /** The server asked something that is still open; `valise pending` goes on. */
  pending: 3,
} as const;

/** Lets a command say with which code the process ends. */
export type SetExit = (code: number) => void;

/** One line for people: what happened and the next step. Never a stack. */
export function explain(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { cause } = error;
  const because =
    cause instanceof Error && cause.message && !error.message.includes(cause.message)
      ? ` (${cause.message})`
      : '';
  return error.message + because;
}
