import { messageOf, ValiseError, watchErrors } from '../core/errors.ts';
import { MAX_HELD } from '../core/notification-order.ts';
import { INTERNAL_ERROR, type Outcome, type Response, type RpcError, withOutcome } from '../wire/index.ts';
import type { ServerContext } from './context.ts';
import type { ServerEventSource } from './events.ts';
import { type Exchange, runningExchange } from './exchange.ts';
import { FlowError } from './flows/errors.ts';
import { isUnknownKey } from './own-keys.ts';
import { CallerLimitError } from './quota.ts';

/**
 * Reports a failure that is not the client's to the author, and returns the client's error, which says whether it may retry.
 *
 * `otherwise` is the outcome of failures that do not state one.
 *
 * @defaultValue `'not-done'`
 */
export type Fault = (error: unknown, otherwise?: Outcome) => RpcError;

/** Whether an error comes from a store. Its message may reveal the store's location, so only the author sees it. */
export function isOfStore(error: unknown): error is ValiseError {
  return error instanceof ValiseError && error.code.startsWith('store-');
}

/** Whether the store is unavailable but may come back. */
export function isAway(error: unknown): boolean {
  return isOfStore(error) && error.code === 'store-unavailable';
}

/** The key under which an error carries its outcome for the request. */
const OUTCOME = Symbol('outcome');

/** Records what a failure means for its request, which is more than the store can know. */
export function noteOutcome(error: unknown, outcome: Outcome): void {
  if (error instanceof Error) Object.defineProperty(error, OUTCOME, { value: outcome, configurable: true });
}

/** Rethrows a failure that occurred before the request had any effect. */
export function notDone(error: unknown): never {
  noteOutcome(error, 'not-done');
  throw error;
}

/** Records that part of the request was saved before it failed. */
export function partlyDone<E>(error: E): E {
  noteOutcome(error, 'unknown');
  return error;
}

/** Returns the outcome of a failure for its request, if known. */
export function outcomeOf(error: unknown): Outcome | undefined {
  const noted = error instanceof Error ? (error as { readonly [OUTCOME]?: Outcome })[OUTCOME] : undefined;
  return noted ?? (error instanceof ValiseError ? error.outcome : undefined);
}

/** The maximum number of requests of one connection that are handled at a time. Any further one gets an error. */
export const MAX_UNDER_WAY = 10_000;

/** Returns the error for a connection that has sent more requests. */
export function tooManyRequests(): ValiseError {
  const what = `A connection has sent more than ${MAX_UNDER_WAY} requests that are not answered yet.`;
  return new ValiseError('limit-reached', what, { next: 'Look who sends them; others are served.' });
}

/** Returns the error for a connection that has sent more notifications than are held back behind its requests. */
export function tooManyNotifications(): ValiseError {
  const what = `A connection has sent more than ${MAX_HELD} notifications while its requests were waiting, and the rest was dropped.`;
  return new ValiseError('limit-reached', what, {
    next: 'Find out who sends them. Other connections are not affected.',
  });
}

const BROKEN = 'Internal error: the server could not work on the request.';
const AWAY =
  'Internal error: the server cannot reach its store at the moment. Nothing was saved. Try again later.';
const UNKNOWN =
  'Internal error: the server could not finish the request, and does not know whether it took effect. Check before you send it again.';

/**
 * Creates the error mapping.
 *
 * The author learns what failed. The client does not, since a store's message may reveal its location.
 */
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

/** Errors whose advice is for whoever made the call. All other advice is for the author of the server. */
const FOR_CALLERS: ReadonlySet<string> = new Set([
  'answer-invalid',
  'access-denied',
  'other-version',
  'not-saved',
]);

/** Records each error that gives advice with the request in whose handler it was created. */
export function noteErrors(): void {
  watchErrors((error) => {
    const exchange = runningExchange();
    if (exchange && !exchange.isAnswered) exchange.note(error);
  });
}

/**
 * Removes advice for the author from a response, and emits it as a warning.
 *
 * The SDKs turn what a handler throws into a result, which the model reads. The model gets only what happened. A store's
 * message may reveal its location, so the client learns only that something failed.
 */
export function withoutAdvice(exchange: Exchange, response: Response, fault: Fault): Response {
  let text = JSON.stringify(response);
  for (const error of exchange.errors ?? []) {
    const message = inJson(error.message);
    if (!text.includes(message)) continue;
    if (error instanceof FlowError && error.rpc) return exchange.respond({ error: error.rpc });
    if (!isOurs(error)) return exchange.respond({ error: fault(error) });
    if (error.next === undefined || error instanceof CallerLimitError || FOR_CALLERS.has(error.code))
      continue;
    warn(exchange, error);
    text = text.replaceAll(message, () => inJson(error.what));
  }
  return JSON.parse(text) as Response;
}

/** Whether an error is our own. Errors of a store, which may be of any kind, and of a missing key are not. */
function isOurs(error: Error): error is ValiseError {
  return error instanceof ValiseError && !isOfStore(error) && !isUnknownKey(error);
}

function warn({ method, request, owner }: Exchange, { what, next }: ValiseError): void {
  const name = request.params?.['name'] ?? request.params?.['uri'];
  (owner as ServerContext).events.emit('warning', {
    what: `${method}${typeof name === 'string' ? ` of ${JSON.stringify(name)}` : ''} failed: ${what}`,
    next: next ?? '',
  });
}

function inJson(text: string): string {
  return JSON.stringify(text).slice(1, -1);
}
