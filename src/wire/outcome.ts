import { isObject } from '../json.ts';
import type { RpcError } from './message.ts';
import { NAMES } from './names.ts';

/**
 * What became of a request that failed: nothing of it was kept, so that it may be sent again; or that is not known, and
 * sending it again may do it twice.
 */
export type Outcome = 'not-done' | 'unknown';

/** The error with its outcome in its data; an outcome that it has already stays. */
export function withOutcome(error: RpcError, outcome: Outcome): RpcError {
  const data = isObject(error.data) ? error.data : {};
  return { ...error, data: { ...data, [NAMES.modern.outcome]: outcomeIn(error) ?? outcome } };
}

/** The outcome that an error states; undefined if it states none. */
export function outcomeIn({ data }: { readonly data?: unknown }): Outcome | undefined {
  const outcome = isObject(data) ? data[NAMES.modern.outcome] : undefined;
  return outcome === 'not-done' || outcome === 'unknown' ? outcome : undefined;
}
