import { messageOf, ValiseError } from '../errors.ts';
import { INTERNAL_ERROR, type Outcome, type RpcError, withOutcome } from '../wire/index.ts';
import type { ServerEventSource } from './events.ts';

/**
 * Takes a failure that is not the client's, tells the author of it, and gives what the client may know: whether it may
 * send the request again. `otherwise` is the outcome of failures that do not state one.
 *
 * @defaultValue `'not-done'`
 */
export type Fault = (error: unknown, otherwise?: Outcome) => RpcError;

/** True for what a store says. It may name the store's place, so it is for the author alone. */
export function isOfStore(error: unknown): error is ValiseError {
  return error instanceof ValiseError && error.code.startsWith('store-');
}

/** True where the store may be back in a while. */
export function isAway(error: unknown): boolean {
  return isOfStore(error) && error.code === 'store-unavailable';
}

/** Where an error carries what it means for its request. */
const OUTCOME = Symbol('outcome');

/** Notes what a failure means for the request it came up in, which is more than its store can know. */
export function noteOutcome(error: unknown, outcome: Outcome): void {
  if (error instanceof Error) Object.defineProperty(error, OUTCOME, { value: outcome, configurable: true });
}

/** Rethrows a failure that came up before the request had any effect. */
export function notDone(error: unknown): never {
  noteOutcome(error, 'not-done');
  throw error;
}

/** Notes that something of the request was kept before it failed. */
export function partlyDone<E>(error: E): E {
  noteOutcome(error, 'unknown');
  return error;
}

/** What a failure means for its request, as far as that is known. */
export function outcomeOf(error: unknown): Outcome | undefined {
  const noted = error instanceof Error ? (error as { readonly [OUTCOME]?: Outcome })[OUTCOME] : undefined;
  return noted ?? (error instanceof ValiseError ? error.outcome : undefined);
}

/** How many requests of one connection are worked on at a time; one more is answered with an error. */
export const MAX_UNDER_WAY = 10_000;

/** Says that a connection has sent more. */
export function tooManyRequests(): ValiseError {
  const what = `A connection has sent more than ${MAX_UNDER_WAY} requests that are not answered yet.`;
  return new ValiseError('too-many-requests', what, { next: 'Look who sends them; others are served.' });
}

const BROKEN = 'Internal error: the server could not work on the request.';
const AWAY =
  'Internal error: the server cannot reach its store at the moment. Nothing was saved. Try again later.';
const UNKNOWN =
  'Internal error: the server could not finish the request, and does not know whether it took effect. Check before you send it again.';

/** The author hears what failed; the client only that something did, since a store's message may name its place. */
export function faultOn(events: ServerEventSource): Fault {
  return (error, otherwise = 'not-done') => {
    const { what, next } = error instanceof ValiseError ? error : { what: messageOf(error), next: undefined };
    const outcome = outcomeOf(error) ?? otherwise;
    const isUnknown = outcome === 'unknown';
    events.emit('warning', {
      what: isUnknown
        ? `A request could not be finished, and may have taken effect: ${what}`
        : `A request could not be served: ${what}`,
      next: next ?? 'Check the store and what is behind valise.http(); the client may try again.',
    });
    const message = isUnknown ? UNKNOWN : isAway(error) ? AWAY : BROKEN;
    return withOutcome({ code: INTERNAL_ERROR, message }, outcome);
  };
}
