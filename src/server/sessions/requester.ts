import { sha256 } from '../../sha256.ts';
import type { Exchange } from '../exchange.ts';
import { principalKey } from '../principal.ts';
import type { Requester } from './held.ts';

/**
 * Returns the requester of an exchange.
 *
 * A session belongs to the verified principal. Without one it belongs to whoever has its id, and is listed only on the
 * transport session that it was created on.
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
    version: exchange.peer.families.versions?.sessions ?? '1.0',
    // Computed lazily, since only creating and listing need it.
    get shelf() {
      if (owner !== null) return `principal/${owner}`;
      return transportSession === undefined ? undefined : `transport/${sha256(transportSession)}`;
    },
  };
}
