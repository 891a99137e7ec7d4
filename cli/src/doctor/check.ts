import { ValiseError } from 'mcp-valise/client';
import { explain, whatOnly } from '../exit.ts';

/** What a check found. */
export interface Finding {
  /** What was looked at. */
  readonly check: string;
  readonly status: 'ok' | 'warn' | 'fail';
  /** What was found, and what it means. */
  readonly what: string;
  /** What to do about it, where something is to be done. */
  readonly fix?: string;
}

/** All is well. */
export function ok(check: string, what: string): Finding {
  return { check, status: 'ok', what };
}

/** It works, but not as well or as safely as it could. */
export function warn(check: string, what: string, fix: string): Finding {
  return { check, status: 'warn', what, fix };
}

/** It does not work. */
export function fail(check: string, what: string, fix: string): Finding {
  return { check, status: 'fail', what, fix };
}

/** What an error tells, and what to do about it: an error of ours knows that better than anybody else. */
export function whatAndFix(error: unknown, otherwise: string): [what: string, fix: string] {
  const next = error instanceof ValiseError ? error.next : undefined;
  return next === undefined ? [explain(error), otherwise] : [whatOnly(error), next];
}
