import { isObject } from '../json.ts';
import type { RpcError } from './message.ts';
import { NAMES } from './names.ts';

/**
 * The outcome of a failed request. `not-done`: nothing was kept, so the request is safe to send again. `unknown`:
 * sending it again may do it twice.
 */
export type Outcome = 'not-done' | 'unknown';

/** Returns the error with an outcome in its data. An existing outcome is kept. */
export function withOutcome(error: RpcError, outcome: Outcome): RpcError {
  const data = isObject(error.data) ? error.data : {};
  return { ...error, data: { ...data, [NAMES.modern.outcome]: outcomeIn(error) ?? outcome } };
}

/** Returns the outcome that an error states, or undefined if it states none. */
export function outcomeIn({ data }: { readonly data?: unknown }): Outcome | undefined {
  const outcome = isObject(data) ? data[NAMES.modern.outcome] : undefined;
  return outcome === 'not-done' || outcome === 'unknown' ? outcome : undefined;
}
