import { ValiseError } from 'mcp-valise/client';
import { causesOf, isObject, redactUrls } from 'mcp-valise/internal';
import { clean } from './output.ts';
import { connectionProblem } from './problems.ts';

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

/** Errors about what was written on the command line. */
const USAGE = new Set<unknown>([
  'bad-target',
  'bad-argument',
  'bad-arguments',
  'bad-resolve',
  'bad-header',
  'bad-option',
  'ambiguous-id',
  'no-such-era',
  'store-bad-url',
]);

/** The exit code for an error that ended a command. */
export function exitCodeOf(error: unknown): number {
  const { code } = (error ?? {}) as { readonly code?: unknown };
  return USAGE.has(code) ? EXIT.usage : EXIT.failed;
}

/** One line for people: what happened and the next step. Never a stack, and no secret out of a URL. */
export function explain(error: unknown): string {
  return clean(redactUrls(connectionProblem(error) ?? withInnermost(error)), 'lines');
}

/** What happened, without the next step: for whoever knows a better one. */
export function whatOnly(error: unknown): string {
  if (!(error instanceof ValiseError)) return explain(error);
  return explain(new ValiseError(error.code, error.what, { cause: error.cause }));
}

/** What happened, why, and the next step last, which is what people are to do. */
function withInnermost(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const why = whyOf(error);
  if (why === '') return error.message;
  if (!(error instanceof ValiseError)) return `${error.message} (${why})`;
  const told = `${error.what.replace(/\.$/, '')} (${why}).`;
  return error.next === undefined ? told : `${told} ${error.next}`;
}

/** What is behind an error, where that says more than the error itself. */
function whyOf(error: Error): string {
  const innermost = causesOf(error).at(-1);
  // One of ours that wraps another has said it better, and its next step is the right one.
  if (error instanceof ValiseError && innermost instanceof ValiseError) return '';
  const why = innermost instanceof Error ? (innermost.message.split('\n', 1)[0] ?? '') : '';
  // "Cannot find package 'x' imported from …", where the error has named it.
  const missing = /^Cannot find (?:package|module) '([^']+)'/.exec(why)?.[1];
  return error.message.includes(missing ?? why) ? '' : why.replace(/\.$/, '');
}

/** The error as a program reads it: its code, and data where the server sent some. */
export function errorBody(error: unknown): Record<string, unknown> {
  const { data } = (error ?? {}) as { readonly data?: unknown };
  const code = codeOf(error);
  const { cause: _cause, ...rest } = isObject(data) ? data : {};
  const kept = isObject(data) ? rest : data;
  const empty = kept === undefined || (isObject(kept) && Object.keys(kept).length === 0);
  // Commander begins its messages with the prefix that it prints.
  const message = explain(error).replace(/^error: /, '');
  return { ...(code !== undefined && { code }), message, ...(!empty && { data: kept }) };
}

/** Of what went wrong on the way to a server, the code of what was behind it: an SDK's own says only what it was about to do. */
function codeOf(error: unknown): unknown {
  const { code } = (error ?? {}) as { readonly code?: unknown };
  if (connectionProblem(error) === undefined) return code;
  const { code: behind } = (causesOf(error).at(-1) ?? {}) as { readonly code?: unknown };
  return behind ?? code;
}
