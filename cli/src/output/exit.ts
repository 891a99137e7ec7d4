import { causesOf, isObject, redactUrls } from 'mcp-valise/internal';
import { CommandError, isExplained, UsageError } from '../errors.ts';
import { clean } from './output.ts';
import { connectionProblem } from './problems.ts';

/** The exit codes, documented in `valise --help` and docs/cli.md. */
export const EXIT = {
  /** Success. */
  ok: 0,
  /** The call or the command failed; the message says why. */
  failed: 1,
  /** The command line is invalid. */
  usage: 2,
  /** The server asked something that is still open; `valise pending` continues the call. */
  pending: 3,
} as const;

/** Sets the exit code of the process. */
export type SetExit = (code: number) => void;

/** Returns the exit code for an error that ended a command. */
export function exitCodeOf(error: unknown): number {
  const { code } = (error ?? {}) as { readonly code?: unknown };
  // Some drivers find mistakes in the store's URL only when they open it.
  return error instanceof UsageError || code === 'store-invalid' ? EXIT.usage : EXIT.failed;
}

/** Returns one line for people: what happened and the next step. Contains no stack trace and no secrets from URLs. */
export function explain(error: unknown): string {
  return clean(redactUrls(connectionProblem(error) ?? withInnermost(error)), 'lines');
}

/** Returns what happened without the next step, for callers that know a better one. */
export function whatOnly(error: unknown): string {
  if (!isExplained(error)) return explain(error);
  return explain(new CommandError(error.code, error.what, { cause: error.cause }));
}

/** Returns what happened and why, followed by the next step. */
function withInnermost(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const why = whyOf(error);
  if (why === '') return error.message;
  if (!isExplained(error)) return `${error.message} (${why})`;
  const told = `${error.what.replace(/\.$/, '')} (${why}).`;
  return error.next === undefined ? told : `${told} ${error.next}`;
}

/** Returns the innermost cause of an error if it adds information. */
function whyOf(error: Error): string {
  const innermost = causesOf(error).at(-1);
  // A `ValiseError` that wraps another one describes it better, and has the right next step.
  if (isExplained(error) && isExplained(innermost)) return '';
  const why = innermost instanceof Error ? (innermost.message.split('\n', 1)[0] ?? '') : '';
  // Skips "Cannot find package 'x' imported from …" if the error already names the package.
  const missing = /^Cannot find (?:package|module) '([^']+)'/.exec(why)?.[1];
  return error.message.includes(missing ?? why) ? '' : why.replace(/\.$/, '');
}

/** Returns the error for programs: its code, and the data that the server sent, if any. */
export function errorBody(error: unknown): Record<string, unknown> {
  const { data } = (error ?? {}) as { readonly data?: unknown };
  const code = codeOf(error);
  const { cause: _cause, ...rest } = isObject(data) ? data : {};
  const kept = isObject(data) ? rest : data;
  const empty = kept === undefined || (isObject(kept) && Object.keys(kept).length === 0);
  // Commander's messages start with the prefix that it prints.
  const message = explain(error).replace(/^error: /, '');
  return { ...(code !== undefined && { code }), message, ...(!empty && { data: kept }) };
}

/**
 * Returns the code of an error. For connection problems it is the innermost cause's code, because the SDK's own code names
 * only the operation.
 */
function codeOf(error: unknown): unknown {
  const { code } = (error ?? {}) as { readonly code?: unknown };
  if (connectionProblem(error) === undefined) return code;
  const { code: behind } = (causesOf(error).at(-1) ?? {}) as { readonly code?: unknown };
  return behind ?? code;
}
