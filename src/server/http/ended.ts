import { messageOf } from '../../errors.ts';
import { sha256 } from '../../sha256.ts';
import { MARK } from '../../store/kit/collection.ts';
import { withTimeout } from '../../store/kit/timeout.ts';
import type { Store } from '../../store/types.ts';
import type { ServerContext } from '../context.ts';
import type { Principal } from '../principal.ts';
import { type Caller, Quota, shareOf } from '../quota.ts';
import { LIFE } from './session-id.ts';

/** How long a request waits to learn whether its session was ended, in milliseconds. */
const PATIENCE = 1000;

/** How many ends one instance may record in the store, for as long as ids can be presented. */
const MAX_ENDED = 100_000;

/** Ends the session that stands in for a transport's session. */
export type EndStandIn = (transportSession: string, principal: Principal | undefined) => Promise<void>;

/**
 * Sealed sessions that their clients have ended. Each proves itself, so only a store can tell all instances that one is over.
 */
export class EndedSessions {
  readonly #context: ServerContext;
  readonly #endStandIn: EndStandIn;
  readonly #remembered = new Quota({
    perCaller: { count: shareOf(MAX_ENDED) },
    total: { count: MAX_ENDED },
  });

  constructor(context: ServerContext, endStandIn: EndStandIn) {
    this.#context = context;
    this.#endStandIn = endStandIn;
  }

  /** Whether a session was ended. Returns undefined if there is no store to record it. */
  has(transportSession: string): Promise<boolean> | undefined {
    const { store } = this.#context;
    return store && this.#find(store, transportSession);
  }

  async #find(store: Store, transportSession: string): Promise<boolean> {
    try {
      const found = store.get(nameOf(transportSession));
      const answer = await withTimeout(found, PATIENCE, () => {
        throw new Error('no answer from the store');
      });
      return answer !== undefined;
    } catch (error) {
      // Many requests need no store and continue without it.
      this.#context.warnOnce('ended-unknown', {
        what: `Whether a transport session was ended could not be looked up: ${messageOf(error)}`,
        next: 'Check the store; until it answers, sessions that were ended are taken.',
      });
      return false;
    }
  }

  /** Ends a session for good. Returns false if there is no store to record it, or too many are recorded already. */
  async add(transportSession: string, principal: Principal | undefined, caller: Caller): Promise<boolean> {
    const { store, events } = this.#context;
    if (!store) return false;
    const exceeded = this.#remembered.take(caller, { ttl: LIFE });
    if (typeof exceeded === 'string') {
      const reason = `Too many transport sessions have ended of late (${exceeded}).`;
      events.emit('rejected', { family: 'sessions', what: 'the end of a transport session', reason });
      return false;
    }
    await store.put(nameOf(transportSession), MARK, { ttl: LIFE, unlisted: true, durable: true });
    await this.#endStandIn(transportSession, principal);
    return true;
  }
}

function nameOf(transportSession: string): string {
  return `transport/ended/${sha256(transportSession)}`;
}
