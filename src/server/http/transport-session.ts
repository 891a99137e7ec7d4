import { randomBytes } from 'node:crypto';
import { messageOf } from '../../core/errors.ts';
import { isObject, type Json, type JsonObject } from '../../core/json.ts';
import { sha256 } from '../../core/sha256.ts';
import type { Sealer } from '../../seal/index.ts';
import { withTimeout } from '../../store/kit/clock.ts';
import { MARK } from '../../store/kit/collection.ts';
import type { Store } from '../../store/types.ts';
import { announcedIn, keptCapabilities } from '../../wire/announce.ts';
import type { Request, RpcError } from '../../wire/index.ts';
import type { ServerContext } from '../context.ts';
import type { ServerEventSource } from '../events.ts';
import { principalDigest } from '../flows/continuation.ts';
import { type Peer, peerOf, STRANGER } from '../peer.ts';
import type { Principal } from '../principal.ts';
import { type Caller, Quota, shareOf } from '../quota.ts';
import { Recent } from '../recent.ts';

/** A transport session that no instance stores. It consists only of its id, which its seal proves. */
export interface SealedSession {
  readonly transportSession: string;
  readonly peer: Peer;
}

const PURPOSE = 'transport-session';
/** The lifetime of an id, in seconds. A client that comes back later starts a new session, as the protocol says. */
const TTL = 30 * 86_400;
/** How long an id can be presented, in seconds, with slack since clocks differ. */
const LIFE = TTL + 180;
/** The maximum length of an id. Proxies refuse headers of more than a few kilobytes. */
const MAX_LENGTH = 4096;
/** How long an opened id is trusted, in milliseconds, since clients send it with every request. */
const CACHED = 60_000;
/** The minimum number of opened ids in the cache. */
const CACHE_SIZE = 1000;

interface Opened {
  readonly session: SealedSession;
  readonly subject: Json | undefined;
  readonly until: number;
}

/** The session ids that the edge issues to clients of servers without transport sessions. */
export class SessionIds {
  readonly #sealer: Sealer;
  readonly #opened = new Recent<Opened>(CACHE_SIZE);
  /** Whether something behind the edge has issued an id of its own, so that it knows its sessions by itself. */
  hasForeign = false;

  constructor(sealer: Sealer) {
    this.#sealer = sealer;
  }

  /** Returns the `Mcp-Session-Id` for the client that sends this `initialize`, or undefined if it would be too long. */
  mint(initialize: Request, principal: Principal | undefined): string | undefined {
    const { capabilities, protocolVersion } = peerOf(initialize, STRANGER);
    const u = principalDigest(principal);
    const seal = (c: JsonObject): string =>
      this.#sealer.seal(
        {
          s: randomBytes(16).toString('base64url'),
          c,
          ...(protocolVersion !== undefined && { v: protocolVersion }),
          ...(u !== undefined && { u }),
        },
        { purpose: PURPOSE, ttl: TTL },
      );
    const own = keptCapabilities((capabilities ?? {}) as JsonObject);
    const whole = seal(own);
    if (whole.length <= MAX_LENGTH) return whole;
    // Keep only what servers may ask of clients, and our own capabilities. The rest may be arbitrarily long.
    const { elicitation, sampling, roots } = own;
    const brief = seal({
      ...(elicitation !== undefined && { elicitation }),
      ...(sampling !== undefined && { sampling }),
      ...(roots !== undefined && { roots }),
      ...announcedIn(own),
    });
    return brief.length <= MAX_LENGTH ? brief : undefined;
  }

  /** Returns the session of an id. Throws if the id is not genuine. */
  open(id: string, principal: Principal | undefined): SealedSession {
    let opened = this.#opened.get(id);
    if (!opened || opened.until <= Date.now()) {
      opened = this.#unseal(id);
      this.#opened.set(id, opened);
    }
    if (opened.subject !== principalDigest(principal))
      throw new Error('The session belongs to another principal.');
    return opened.session;
  }

  #unseal(id: string): Opened {
    const { s, c, v, u } = this.#sealer.open(id, { purpose: PURPOSE }) as { readonly [name: string]: Json };
    const params = {
      ...(isObject(c) && { capabilities: c }),
      ...(typeof v === 'string' && { protocolVersion: v }),
    };
    const peer = peerOf({ jsonrpc: '2.0', id: 0, method: 'initialize', params }, STRANGER);
    const session = { transportSession: `sealed:${String(s)}`, peer };
    return { session, subject: u, until: Date.now() + CACHED };
  }
}

/** The error for an unknown session id. Older clients then begin a new session. */
export const NOT_FOUND: RpcError = { code: -32001, message: 'Session not found' };

/**
 * A session id that the edge did not issue.
 *
 * The transport behind the edge may have issued it. A transport without sessions would ignore it, and the client would continue
 * in a session that nobody knows. The id is therefore checked when a transport accepts the request.
 */
export class ForeignSession {
  readonly id: string;
  #onUnknown: (() => void) | undefined;
  readonly #events: ServerEventSource;
  #isKnown: boolean | undefined;

  constructor(id: string, events: ServerEventSource) {
    this.id = id;
    this.#events = events;
  }

  /** Sets the function that takes over the HTTP response if nobody knows the id. */
  whenUnknown(takeOver: () => void): void {
    if (this.#isKnown === undefined) this.#onUnknown = takeOver;
  }

  get isUnknown(): boolean {
    return this.#isKnown === false;
  }

  /** Decides once for all messages of a request. Returns the error for them if the id is unknown. */
  check(isKnown: boolean): RpcError | undefined {
    if (this.#isKnown === undefined) {
      this.#isKnown = isKnown;
      // Values in an async context stay in memory with its promises.
      const onUnknown = this.#onUnknown;
      this.#onUnknown = undefined;
      if (!isKnown) {
        const reason = 'not made here';
        this.#events.emit('rejected', { family: 'sessions', what: 'a transport session', reason });
        onUnknown?.();
      }
    }
    return this.isUnknown ? NOT_FOUND : undefined;
  }
}

/** How long a request waits to learn whether its session was terminated, in milliseconds. */
const MAX_WAIT = 1000;

/** The number of terminated sessions that one instance may record in the store, for as long as ids can be presented. */
const MAX_TERMINATED = 100_000;

/** Ends the session that stands in for a transport's session. */
export type EndStandIn = (transportSession: string, principal: Principal | undefined) => Promise<void>;

/**
 * Sealed sessions that their clients have terminated with DELETE.
 *
 * Each id proves itself, so only a store can tell all instances that a session is over.
 */
export class TerminatedSessions {
  readonly #context: ServerContext;
  readonly #endStandIn: EndStandIn;
  readonly #recorded = new Quota({
    perCaller: { count: shareOf(MAX_TERMINATED) },
    total: { count: MAX_TERMINATED },
  });

  constructor(context: ServerContext, endStandIn: EndStandIn) {
    this.#context = context;
    this.#endStandIn = endStandIn;
  }

  /** Whether a session was terminated. Returns undefined if there is no store to record it. */
  has(transportSession: string): Promise<boolean> | undefined {
    const { store } = this.#context;
    return store && this.#find(store, transportSession);
  }

  async #find(store: Store, transportSession: string): Promise<boolean> {
    try {
      const found = store.get(nameOf(transportSession));
      const answer = await withTimeout(found, MAX_WAIT, () => {
        throw new Error('no answer from the store');
      });
      return answer !== undefined;
    } catch (error) {
      // Many requests need no store and continue without it.
      this.#context.warnOnce('ended-unknown', {
        what: `Valise could not look up whether a transport session was terminated: ${messageOf(error)}`,
        next: 'Check the store. Until it answers, terminated sessions are accepted.',
      });
      return false;
    }
  }

  /** Terminates a session. Returns false if there is no store to record it, or too many are recorded already. */
  async add(transportSession: string, principal: Principal | undefined, caller: Caller): Promise<boolean> {
    const { store, events } = this.#context;
    if (!store) return false;
    const exceeded = this.#recorded.take(caller, { ttl: LIFE });
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
