import { randomBytes } from 'node:crypto';
import { isObject, type Json, type JsonObject } from '../../json.ts';
import type { Sealer } from '../../seal/index.ts';
import { announcedIn, keptCapabilities } from '../../wire/announce.ts';
import type { Request } from '../../wire/index.ts';
import { principalDigest } from '../flows/context.ts';
import { type Peer, peerOf, STRANGER } from '../peer.ts';
import type { Principal } from '../principal.ts';
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
export const LIFE = TTL + 180;
/** The maximum length of an id. Proxies refuse headers of more than a few kilobytes. */
const LONGEST = 4096;

/** Returns the `Mcp-Session-Id` for the client that sends this `initialize`, or undefined if it would be too long. */
export function mintSessionId(
  sealer: Sealer,
  initialize: Request,
  principal: Principal | undefined,
): string | undefined {
  const { capabilities, protocolVersion } = peerOf(initialize, STRANGER);
  const u = principalDigest(principal);
  const seal = (c: JsonObject | undefined): string =>
    sealer.seal(
      {
        s: randomBytes(16).toString('base64url'),
        ...(c && { c }),
        ...(protocolVersion !== undefined && { v: protocolVersion }),
        ...(u !== undefined && { u }),
      },
      { purpose: PURPOSE, ttl: TTL },
    );
  const own = keptCapabilities((capabilities ?? {}) as JsonObject);
  const whole = seal(own);
  if (whole.length <= LONGEST) return whole;
  // Keep only what servers may ask of clients, and our own capabilities. The rest may be arbitrarily long.
  const { elicitation, sampling, roots } = own;
  const brief = seal({
    ...(elicitation !== undefined && { elicitation }),
    ...(sampling !== undefined && { sampling }),
    ...(roots !== undefined && { roots }),
    ...announcedIn(own),
  });
  return brief.length <= LONGEST ? brief : undefined;
}

/** How long an opened id is trusted, in milliseconds, since clients send it with every request. */
const BELIEVED = 60_000;
/** The minimum number of ids that are remembered. */
const MOST = 1000;

interface Opened {
  readonly session: SealedSession;
  readonly subject: Json | undefined;
  readonly until: number;
}

/** Opens the ids that {@link mintSessionId} made. */
export class SessionIds {
  readonly #sealer: Sealer;
  readonly #opened = new Recent<Opened>(MOST);
  /** Whether something behind the edge has issued an id of its own, so that it knows its sessions by itself. */
  othersGiven = false;

  constructor(sealer: Sealer) {
    this.#sealer = sealer;
  }

  /** Returns the session of an id. Throws if the id is not genuine. */
  open(id: string, principal: Principal | undefined): SealedSession {
    let opened = this.#opened.get(id);
    if (!opened || opened.until <= Date.now()) {
      opened = openSessionId(this.#sealer, id);
      this.#opened.set(id, opened);
    }
    if (opened.subject !== principalDigest(principal))
      throw new Error('The session is of another principal.');
    return opened.session;
  }
}

function openSessionId(sealer: Sealer, id: string): Opened {
  const { s, c, v, u } = sealer.open(id, { purpose: PURPOSE }) as { readonly [name: string]: Json };
  const initialize = {
    jsonrpc: '2.0',
    id: 0,
    method: 'initialize',
    params: { ...(isObject(c) && { capabilities: c }), ...(typeof v === 'string' && { protocolVersion: v }) },
  } as const;
  const session = { transportSession: `sealed:${String(s)}`, peer: peerOf(initialize, STRANGER) };
  return { session, subject: u, until: Date.now() + BELIEVED };
}
