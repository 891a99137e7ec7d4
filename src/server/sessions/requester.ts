import { sha256 } from '../../sha256.ts';
import type { Exchange } from '../exchange.ts';
import { principalKey } from '../principal.ts';
import type { Requester } from './held.ts';

/**
 * Who asks. A session belongs to the principal that verified auth names; without one it belongs to whoever has its
 * id, and is listed only on the transport's own session that it was made on.
 */
export function requesterOf(exchange: Exchange): Requester {
  const { principal, transportSession } = exchange;
  const subject = principalKey(principal);
  const owner = subject === undefined ? null : sha256(subject);
  return {
    subject,
    owner,
    get caller() {
      return exchange.caller;
    },
    // Made where it is asked for: only creating and listing do.
    get shelf() {
      if (owner !== null) return `principal/${owner}`;
      return transportSession === undefined ? undefined : `transport/${sha256(transportSession)}`;
    },
  };
}
