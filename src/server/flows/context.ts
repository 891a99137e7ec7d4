import type { Json, JsonObject } from '../../json.ts';
import { sha256 } from '../../sha256.ts';
import { keptCapabilities } from '../../wire/announce.ts';
import {
  type Answer,
  type Id,
  isSession,
  type Params,
  type Request,
  readAnnounced,
  readSession,
} from '../../wire/index.ts';
import type { Exchange } from '../exchange.ts';
import type { Peer } from '../peer.ts';
import { type Principal, principalKey } from '../principal.ts';
import type { Caller } from '../quota.ts';
import type { JournalLines, StepKind } from './journal.ts';

/** A question of the round, as it travels: its key, kind and fingerprint. */
export type AskedLine = readonly [key: string, kind: StepKind, print: string];

/** Everything that is needed to continue a call, on any instance. Its names are short because it travels. */
export interface RoundContext {
  /** The flow's id. */
  readonly f: string;
  /** The number of the round. */
  readonly n: number;
  /** When this round was first asked (a renewed one keeps it), in seconds since 1970. */
  readonly t: number;
  /** When the round ends, in seconds since 1970. */
  readonly e: number;
  /** The version of the handler. */
  readonly h?: string | number;
  /** The journal of the previous rounds. */
  readonly j?: JournalLines;
  /** The questions of this round. */
  readonly q?: readonly AskedLine[];
  /** The call itself, if the client does not repeat it with its answer. */
  readonly o?: { readonly i: Id; readonly m: string; readonly p?: Params };
  /** The client, if its answer does not introduce it. */
  readonly c?: { readonly c?: JsonObject; readonly v?: string };
  /** A digest of the principal, if the seal itself cannot be bound to it. */
  readonly u?: string;
  /** The trace context of the request that asked, if the server has telemetry. */
  readonly x?: string;
  /** The transport session that the question was asked in, if any instance may be answered. */
  readonly s?: string;
}

/** A round whose answer has arrived. */
export interface Answered {
  readonly context: RoundContext;
  /** The answers by the question's key. Missing ones are asked again. */
  readonly answers: ReadonlyMap<string, Answer>;
  /** Whether the call continues with its session's state at the time of the call, because the answer brought no later one. */
  readonly isBehind?: boolean;
  /** Set once the answer was refused. The refusal is then not the outcome of the round's call. */
  isRefused?: true;
}

/** Returns the digest that represents a principal in a context. */
export function principalDigest(principal: Principal | undefined): string | undefined {
  const key = principalKey(principal);
  return key === undefined ? undefined : sha256(key).slice(0, 22);
}

/** Whether the context belongs to this principal. */
export function isOf(context: RoundContext, principal: Principal | undefined): boolean {
  return context.u === principalDigest(principal);
}

/**
 * Returns what identifies a call: its method, session and params.
 *
 * It leaves out what a retry adds and the rest of `_meta`, which differs each time the call is sent. A session that stands in
 * for the transport's own is left out too, because the client does not name it.
 */
export function callOf({ method, params }: Request): Json {
  const { _meta, requestState, inputResponses, ...own } = params ?? {};
  const session = readSession(_meta);
  return [method, own as JsonObject, isSession(session) ? session.sessionId : null];
}

/** Returns the call in the form in which it can be given to a handler again. */
export function originalOf({ request }: Exchange): NonNullable<RoundContext['o']> {
  return { i: request.id, m: request.method, ...(request.params && { p: request.params }) };
}

/** Returns the call of a context as a request. */
export function requestIn({ o }: RoundContext): Request | undefined {
  return o && { jsonrpc: '2.0', id: o.i, method: o.m, ...(o.p && { params: o.p }) };
}

/** Returns what must be known about the client to ask it again. */
export function peerLine({ capabilities, protocolVersion }: Peer): NonNullable<RoundContext['c']> {
  if (!capabilities) return protocolVersion === undefined ? {} : { v: protocolVersion };
  return {
    c: keptCapabilities(capabilities as JsonObject),
    ...(protocolVersion !== undefined && { v: protocolVersion }),
  };
}

/** Returns the client of a context. */
export function peerIn({ c }: RoundContext): Peer | undefined {
  return c && { capabilities: c.c, families: readAnnounced(c.c), protocolVersion: c.v };
}

/** Returns the caller whose share a round counts toward if its answer comes without its call. */
export function callerIn({ u, s }: Pick<RoundContext, 'u' | 's'>): Caller {
  return { name: u ?? s, isAnonymous: u === undefined };
}
