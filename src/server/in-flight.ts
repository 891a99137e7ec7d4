import { INTERNAL_ERROR, type RpcError, sessionMethod, withOutcome } from '../wire/index.ts';
import type { ServerEventSource } from './events.ts';
import type { ServerMiddleware } from './exchange.ts';

const BUSY: RpcError = withOutcome(
  {
    code: INTERNAL_ERROR,
    message: 'Internal error: the server has too much to do. Try again in a moment.',
    data: { code: 'overloaded' },
  },
  'not-done',
);

/** Whether a request is exempt, because it is answered immediately or has limits of its own. */
function isExempt(method: string): boolean {
  return method === 'ping' || method === 'initialize' || sessionMethod(method)?.verb === 'listen';
}

/** Creates a middleware that refuses requests while `max` are in flight, so that accepted requests are served in time. */
export function loadShedding(max: number, events: ServerEventSource): ServerMiddleware {
  let inFlight = 0;
  return async (exchange, next) => {
    if (isExempt(exchange.method)) return next();
    if (inFlight >= max) {
      events.emit('overloaded', { maxInFlight: max });
      return exchange.respond({ error: BUSY });
    }
    inFlight++;
    try {
      return await next();
    } finally {
      inFlight--;
    }
  };
}
