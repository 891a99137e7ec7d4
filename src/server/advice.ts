import { type ValiseError, watchErrors } from '../errors.ts';
import type { Response } from '../wire/index.ts';
import type { ServerContext } from './context.ts';
import { type Exchange, runningExchange } from './exchange.ts';
import { isOfStore } from './fault.ts';
import { Slot } from './slot.ts';

/** Errors whose advice is for whoever made the call. All other advice is for the author of the server. */
const FOR_CALLERS: ReadonlySet<string> = new Set([
  'answer-invalid',
  'bad-cursor',
  'may-not-listen',
  'other-version',
  'session-conflict',
  'state-not-saved',
  'too-many-sessions',
  'too-many-subscriptions',
]);

/** How many errors of one request are looked for in its answer: a handler may catch any number. */
const MOST = 32;
const advised = new Slot<number>();

/**
 * The SDKs make a result of what a handler throws, and the model reads it. So the model gets what happened, and the author
 * gets the advice, as a warning.
 */
export function keepAdviceFromModels(): void {
  watchErrors((error) => {
    const exchange = runningExchange();
    if (!exchange || exchange.isAnswered || FOR_CALLERS.has(error.code) || isOfStore(error)) return;
    const noted = advised.get(exchange) ?? 0;
    advised.set(exchange, noted + 1);
    if (noted < MOST) exchange.whenAnswered((response) => withoutAdvice(exchange, response, error));
  });
}

function withoutAdvice(exchange: Exchange, response: Response, error: ValiseError): Response {
  const text = JSON.stringify(response);
  const message = inJson(error.message);
  if (!text.includes(message)) return response;
  const { method, request, owner } = exchange;
  const name = request.params?.['name'] ?? request.params?.['uri'];
  (owner as ServerContext).events.emit('warning', {
    what: `${method}${typeof name === 'string' ? ` of ${JSON.stringify(name)}` : ''} failed: ${error.what}`,
    next: error.next ?? '',
  });
  return JSON.parse(text.replaceAll(message, () => inJson(error.what))) as Response;
}

function inJson(text: string): string {
  return JSON.stringify(text).slice(1, -1);
}
