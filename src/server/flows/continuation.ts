import { randomFillSync } from 'node:crypto';
import type { Json, JsonObject } from '../../core/json.ts';
import { sha256 } from '../../core/sha256.ts';
import { keptCapabilities } from '../../wire/announce.ts';
import {
  type Answer,
  type Id,
  isSession,
  type Params,
  type Request,
  type Response,
  readAnnounced,
  readSession,
  type SessionMeta,
} from '../../wire/index.ts';
import { replaceSession, withoutSession } from '../../wire/spelling.ts';
import type { Peer } from '../peer.ts';
import { type Principal, principalKey } from '../principal.ts';
import type { Caller } from '../quota.ts';
import { safeAnswer } from './answer.ts';
import type { JournalLines, StepKind } from './journal.ts';

/** A question of the round, as it travels: its key, kind and fingerprint. */
export type AskedLine = readonly [key: string, kind: StepKind, print: string];

/** Everything that is needed to continue a call, on any instance. Its names are short because it travels. */
export interface Continuation {
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
  /** The version of `dev.valise/rounds` that the flow began with, `MAJOR.MINOR`. Absent means 1.0. */
  readonly v?: string;
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

/** A round whose answers have arrived. */
export interface Answered {
  readonly continuation: Continuation;
  /** The answers by the question's key. Missing ones are asked again. */
  readonly answers: ReadonlyMap<string, Answer>;
  /** Whether the call continues with its session's state at the time of the call, because the answer brought no later one. */
  readonly isBehind?: boolean;
  /** Set once the answer was refused. The refusal is then not the outcome of the round's call. */
  isRefused?: true;
}

const ID_BYTES = 16;
const pool = Buffer.alloc(ID_BYTES * 256);
let at = pool.length;

/** Returns a new flow id of 128 random bits. Bytes are drawn in bulk, since each draw costs more than its bytes. */
export function newFlowId(): string {
  if (at === pool.length) {
    randomFillSync(pool);
    at = 0;
  }
  const id = pool.toString('base64url', at, at + ID_BYTES);
  // Erase the issued bytes, so that they cannot be issued again.
  pool.fill(0, at, at + ID_BYTES);
  at += ID_BYTES;
  return id;
}

/** Returns the digest that represents a principal in a continuation. */
export function principalDigest(principal: Principal | undefined): string | undefined {
  const key = principalKey(principal);
  return key === undefined ? undefined : sha256(key).slice(0, 22);
}

/** Whether the continuation belongs to this principal. */
export function isOf({ u }: Continuation, principal: Principal | undefined): boolean {
  return u === principalDigest(principal);
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

/** A call, its client and who makes it. */
interface Call {
  readonly request: Request;
  readonly peer: Peer;
  readonly principal: Principal | undefined;
}

/** Returns what a continuation must contain if the client answers without its call: the call, the client, the principal. */
export function withCall(continuation: Continuation, { request, peer, principal }: Call): Continuation {
  const u = principalDigest(principal);
  const { capabilities, protocolVersion } = peer;
  return {
    ...continuation,
    o: { i: request.id, m: request.method, ...(request.params && { p: request.params }) },
    c: {
      ...(capabilities && { c: keptCapabilities(capabilities as JsonObject) }),
      ...(protocolVersion !== undefined && { v: protocolVersion }),
    },
    ...(u !== undefined && { u }),
  };
}

/** Returns the call of a continuation as a request. */
export function requestIn({ o }: Continuation): Request | undefined {
  return o && { jsonrpc: '2.0', id: o.i, method: o.m, ...(o.p && { params: o.p }) };
}

/** Returns the client of a continuation. */
export function peerIn({ c }: Continuation): Peer | undefined {
  return c && { capabilities: c.c, families: readAnnounced(c.c), protocolVersion: c.v };
}

/** Returns the caller whose share a round counts toward if its answer comes without its call. */
export function callerIn({ u, s }: Pick<Continuation, 'u' | 's'>): Caller {
  return { name: u ?? s, isAnonymous: u === undefined };
}

/** The answer to a question, and the session that it names. */
export interface Brought {
  readonly answer: Answer;
  readonly session: SessionMeta | undefined;
}

/** Reads the answer to a question, and removes the session that it names, which is not for the handler. */
export function readAnswer(response: Response): Brought {
  if (!('result' in response)) return { answer: { error: response.error }, session: undefined };
  const { result } = response;
  const session = readSession(result._meta);
  if (!isSession(session)) return { answer: safeAnswer({ result }), session: undefined };
  return { answer: safeAnswer({ result: { ...result, _meta: withoutSession(result._meta) } }), session };
}

/**
 * Updates the params of a call to the present state of its session, if an answer has brought that state.
 *
 * Other calls may have changed the session since the call was sent. The present state must prove itself like that of every
 * request, and it is never that of another session.
 */
export function withPresentSession(
  params: Params | undefined,
  present: SessionMeta | undefined,
): { readonly params: Params | undefined; readonly isBehind: boolean } {
  const session = readSession(params?._meta);
  if (!isSession(session)) return { params, isBehind: false };
  // A session in the store has no state to send.
  if (present?.sessionId !== session.sessionId || present.state === undefined)
    return { params, isBehind: true };
  return { params: { ...params, _meta: replaceSession(params?._meta, present) }, isBehind: false };
}
