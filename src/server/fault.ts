import { messageOf, ValiseError } from '../errors.ts';
import { INTERNAL_ERROR, type RpcError, undone } from '../wire/index.ts';
import type { ServerEventSource } from './events.ts';

/** Takes a failure that is not the client's, tells the author of it, and gives what the client may know: it may try again. */
export type Fault = (error: unknown) => RpcError;

/** True for what a store says. It may name the store's place, so it is for the author alone. */
export function isOfStore(error: unknown): error is ValiseError {
  return error instanceof ValiseError && error.code.startsWith('store-');
}

/** True where the store may be back in a while. */
export function isAway(error: unknown): boolean {
  return isOfStore(error) && error.code === 'store-unavailable';
}

/** How many requests of one connection are worked on at a time; one more is answered with an error. */
export const MAX_UNDER_WAY = 10_000;

/** Says that a connection has sent more. */
export function tooManyRequests(): ValiseError {
  const what = `A connection has sent more than ${MAX_UNDER_WAY} requests that are not answered yet.`;
  return new ValiseError('too-many-requests', what, { next: 'Look who sends them; others are served.' });
}

const BROKEN = 'Internal error: the server could not work on the request.';
const AWAY = 'Internal error: the server cannot reach its store at the moment. Try again later.';

/** The author hears what failed; the client only that something did, since a store's message may name its place. */
export function faultOn(events: ServerEventSource): Fault {
  return (error) => {
    const { what, next } = error instanceof ValiseError ? error : { what: messageOf(error), next: undefined };
    events.emit('warning', {
      what: `A request could not be served: ${what}`,
      next: next ?? 'Check the store and what is behind valise.http(); the client may try again.',
    });
    return undone({ code: INTERNAL_ERROR, message: isAway(error) ? AWAY : BROKEN });
  };
}
