import { ValiseError, watchErrors } from '../errors.ts';
import type { Response } from '../wire/index.ts';
import type { ServerContext } from './context.ts';
import { type Exchange, runningExchange } from './exchange.ts';
import { type Fault, isOfStore } from './fault.ts';
import { FlowError } from './flows/errors.ts';
import { isUnknownKey } from './own-keys.ts';
import { CallerLimitError } from './quota.ts';

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
  if (!exchange.errors) return response;
  let text = JSON.stringify(response);
  for (const error of exchange.errors) {
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
