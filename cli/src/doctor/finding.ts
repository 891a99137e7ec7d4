import { isExplained } from '../errors.ts';
import { explain, whatOnly } from '../output/exit.ts';

/** The outcome of a check. */
export interface Finding {
  /** The name of the check. */
  readonly check: string;
  readonly status: 'ok' | 'warn' | 'fail';
  /** The observation and what it means. */
  readonly what: string;
  /** How to fix it, if a fix is necessary. */
  readonly fix?: string;
}

/** Returns a finding without a problem. */
export function ok(check: string, what: string): Finding {
  return { check, status: 'ok', what };
}

/** Returns a finding that works, but not as well or as safely as it could. */
export function warn(check: string, what: string, fix: string): Finding {
  return { check, status: 'warn', what, fix };
}

/** Returns a finding that does not work. */
export function fail(check: string, what: string, fix: string): Finding {
  return { check, status: 'fail', what, fix };
}

/** Returns the description of an error and its fix. A `ValiseError` names its own fix; `otherwise` is the fallback. */
export function whatAndFix(error: unknown, otherwise: string): [what: string, fix: string] {
  const next = isExplained(error) ? error.next : undefined;
  return next === undefined ? [explain(error), otherwise] : [whatOnly(error), next];
}
