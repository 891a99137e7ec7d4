import { ValiseError, watchErrors } from '../errors.ts';
import type { Response } from '../wire/index.ts';
import type { ServerContext } from './context.ts';
import { type Exchange, runningExchange } from './exchange.ts';
import { type Fault, isOfStore } from './fault.ts';
import { FlowError } from './flow/errors.ts';
import { isUnknownKey } from './own-keys.ts';

/** Errors whose advice is for whoever made the call. All other advice is for the author of the server. */
const FOR_CALLERS: ReadonlySet<string> = new Set([
  'answer-invalid',
  'bad-cursor',
  'may-not-listen',
  'other-version',
  'state-not-saved',
  'too-many-sessions',
  'too-many-subscriptions',
]);

/** Has each error that gives advice noted with the request in whose handler it was made. */
export function noteErrors(): void {
  watchErrors((error) => {
    const exchange = runningExchange();
    if (exchange && !exchange.isAnswered) exchange.note(error);
  });
}

/**
 * The SDKs make a result of what a handler throws, and the model reads it. So the model gets what happened, and the author
 * gets the advice, as a warning. What a store says may name its place: the client hears only that something failed.
 */
export function withoutAdvice(exchange: Exchange, response: Response, fault: Fault): Response {
  if (!exchange.errors) return response;
  let text = JSON.stringify(response);
  for (const error of exchange.errors) {
    const message = inJson(error.message);
    if (!text.includes(message)) continue;
    if (error instanceof FlowError && error.rpc) return exchange.respond({ error: error.rpc });
    if (!isOurs(error)) return exchange.respond({ error: fault(error) });
    if (error.next === undefined || FOR_CALLERS.has(error.code)) continue;
    warn(exchange, error);
    text = text.replaceAll(message, () => inJson(error.what));
  }
  return JSON.parse(text) as Response;
}

/** False for what a store says, which may be of any kind, and for a key that the server lacks. */
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
