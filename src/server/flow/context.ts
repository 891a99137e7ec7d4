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

/** All that is needed to go on with a call, on any instance. Its names are short because it travels. */
export interface RoundContext {
  /** The flow's id. */
  readonly f: string;
  /** The number of the round. */
  readonly n: number;
  /** When this round was first asked (a renewed one keeps it), in seconds since 1970. */
  readonly t: number;
  /** When it ends, in seconds since 1970. */
  readonly e: number;
  /** Version of the handler. */
  readonly h?: string | number;
  /** What has happened before. */
  readonly j?: JournalLines;
  /** What this round asks. */
  readonly q?: readonly AskedLine[];
  /** The call itself, where the client does not repeat it with its answer. */
  readonly o?: { readonly i: Id; readonly m: string; readonly p?: Params };
  /** The client, where its answer does not introduce it. */
  readonly c?: { readonly c?: JsonObject; readonly v?: string };
  /** Whose call it is, as a digest, where the seal itself cannot be bound to it. */
  readonly u?: string;
  /** The transport's session that it was asked in, where any instance may be answered. */
  readonly s?: string;
}

/** A round whose answer has come. */
export interface Answered {
  readonly context: RoundContext;
  /** By the question's key; what is missing is asked again. */
  readonly answers: ReadonlyMap<string, Answer>;
  /** True where the call goes on with its session's state of when it was made: the answer brought no later one. */
  readonly isBehind?: boolean;
  /** True once it was refused: it is not what the round's call comes to. */
  isRefused?: true;
}

/** What stands in a context for a principal. */
export function principalDigest(principal: Principal | undefined): string | undefined {
  const key = principalKey(principal);
  return key === undefined ? undefined : sha256(key).slice(0, 22);
}

/** True where the context belongs to this principal. */
export function isOf(context: RoundContext, principal: Principal | undefined): boolean {
  return context.u === principalDigest(principal);
}

/**
 * What makes two calls the same one: method, session and params, without what a retry adds and without the rest of
 * `_meta` (it differs from one sending to the next). A session that the transport's own stands in for is none: which
 * one that is, the client does not say.
 */
export function callOf({ method, params }: Request): Json {
  const { _meta, requestState, inputResponses, ...own } = params ?? {};
  const session = readSession(_meta);
  return [method, own as JsonObject, isSession(session) ? session.sessionId : null];
}

/** The call, to be given to a handler again. */
export function originalOf({ request }: Exchange): NonNullable<RoundContext['o']> {
  return { i: request.id, m: request.method, ...(request.params && { p: request.params }) };
}

/** The call of a context as a request. */
export function requestIn({ o }: RoundContext): Request | undefined {
  return o && { jsonrpc: '2.0', id: o.i, method: o.m, ...(o.p && { params: o.p }) };
}

/** What must be known about the client to ask it again. */
export function peerLine({ capabilities, protocolVersion }: Peer): NonNullable<RoundContext['c']> {
  if (!capabilities) return protocolVersion === undefined ? {} : { v: protocolVersion };
  return {
    c: keptCapabilities(capabilities as JsonObject),
    ...(protocolVersion !== undefined && { v: protocolVersion }),
  };
}

/** The client of a context. */
export function peerIn({ c }: RoundContext): Peer | undefined {
  return c && { capabilities: c.c, families: readAnnounced(c.c), protocolVersion: c.v };
}

/** Whose share a round counts toward whose answer comes without its call. */
export function callerIn({ u, s }: Pick<RoundContext, 'u' | 's'>): Caller {
  return { name: u ?? s, isAnonymous: u === undefined };
}
