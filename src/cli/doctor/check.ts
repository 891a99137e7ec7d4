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
