import { isObject, isShallow, type Json, type JsonObject } from '../core/json.ts';
import type { Meta, Result } from '../core/message.ts';
import { withoutMeta } from '../core/message.ts';
import { DRAFTS, type Era, NAMES } from './names.ts';
import type { Problem } from './problem.ts';

/** A session as carried in messages. */
export interface SessionMeta {
  /** Visible ASCII characters. Neither side ever rewrites it. */
  readonly sessionId: string;
  /** The server's sealed text. It is opaque to the client, which echoes it exactly. */
  readonly state?: string;
  /** An ISO 8601 time. It is a hint for people, never a reason to reject a call. */
  readonly expiresAt?: string;
  /** The version counter of `state`, so that an older response never overwrites a newer one. */
  readonly seq?: number;
  /** The data that the first drafts carried instead of `state`. Valise reads it and never writes it. */
  readonly data?: JsonObject;
}

/** What a message says about its session: nothing (`undefined`), that the session is gone (`null`), a session, or a problem. */
export type SessionReading = SessionMeta | null | undefined | Problem;

/** The maximum length of a session id. Longer ids are rejected because the id also travels in an HTTP header. */
export const MAX_SESSION_ID = 2048;

/** The `_meta` key of a session in Valise's own names. */
export const SESSION_KEY = NAMES.modern.session;

const MODERN = SESSION_KEY;
const LEGACY = NAMES.legacy.session;
const DRAFT = DRAFTS.session;
const SEQ = NAMES.modern.seq;

/** Whether the value consists of 1 to {@link MAX_SESSION_ID} visible ASCII characters, 0x21 to 0x7E. */
export function isSessionId(id: unknown): id is string {
  return typeof id === 'string' && id.length <= MAX_SESSION_ID && /^[\x21-\x7e]+$/.test(id);
}

/**
 * Reads the session from the `_meta` of params or a result, in the form of any draft version. Never throws.
 *
 * @example
 * ```ts
 * const session = readSession(request.params?._meta);
 * if (isProblem(session)) return { code: INVALID_PARAMS, message: `Invalid session metadata: ${session.where}` };
 * ```
 */
export function readSession(meta: unknown): SessionReading {
  if (!isObject(meta)) return undefined;
  // The keys are read one by one because this runs on every message, and most messages belong to no session.
  const modern = meta[MODERN];
  const legacy = meta[LEGACY];
  const draft = meta[DRAFT];
  if (modern === undefined && legacy === undefined && draft === undefined) return undefined;
  const found = also(also(readValue(modern, MODERN), legacy, LEGACY), draft, DRAFT);
  return isSession(found) ? withSeq(found, meta[SEQ]) : found;
}

/**
 * Combines the session found so far with another place that may name one. If they disagree, a gateway may have checked
 * one of them while Valise uses the other, so this is a conflict.
 */
function also(found: SessionReading, value: unknown, key: string): SessionReading {
  if (value === undefined) return found;
  const reading = readValue(value, key);
  if (found === undefined) return reading;
  return idOf(found) === idOf(reading) ? found : { problem: 'conflict', where: key };
}

function readValue(value: unknown, where: string): SessionReading {
  return value === undefined || value === null ? value : readSessionObject(value, where);
}

/** Reads a session from the body of a result or from the value of its `_meta` key. `where` is used in the {@link Problem}. */
export function readSessionObject(value: unknown, where: string): SessionMeta | Problem {
  if (!isObject(value)) return { problem: 'wrong-type', where };
  const sessionId = value.sessionId ?? value.id;
  if (sessionId === undefined) return { problem: 'incomplete', where: `${where}.sessionId` };
  if (!isSessionId(sessionId)) return { problem: 'bad-value', where: `${where}.sessionId` };
  const session: { -readonly [K in keyof SessionMeta]: SessionMeta[K] } = { sessionId };
  const { state, data } = value;
  if (typeof state === 'string') session.state = state;
  else if (state !== undefined && state !== null) return { problem: 'wrong-type', where: `${where}.state` };
  const expiresAt = value.expiresAt ?? value.expiry;
  if (isTimestamp(expiresAt)) session.expiresAt = expiresAt;
  if (isObject(data) && isShallow(data)) session.data = data as JsonObject;
  return session;
}

/** Adds the sequence number next to the session, if it is valid. */
export function withSeq(session: SessionMeta, seq: unknown): SessionMeta {
  return Number.isSafeInteger(seq) && (seq as number) >= 0 ? { ...session, seq: seq as number } : session;
}

/**
 * Writes a session into a `_meta` fragment. The sequence number stands next to the session, so that the session itself
 * is exactly what the draft defines. Pass one only to a peer that announced `dev.valise/sessions`.
 */
export function writeSession(era: Era, session: SessionMeta): Meta {
  const names = NAMES[era];
  const fragment: Record<string, unknown> = { [names.session]: sessionBody(session) };
  if (session.seq !== undefined) fragment[names.seq] = session.seq;
  return fragment;
}

const KEYS = [MODERN, LEGACY, DRAFT, SEQ];

/** Returns the HTTP header that mirrors a session's id. If the transport has a session, its id takes the drafts' header. */
export function sessionHeader(spelling: Era, isTaken: boolean): string {
  return NAMES[isTaken ? 'modern' : spelling].header.session;
}

/** Returns the result without its session, in any spelling. A client that manages the session hides it from the host. */
export function withoutSession(result: Result): Result {
  return withoutMeta(result, KEYS);
}

/** Returns the session object itself, with only the fields of the draft. */
export function sessionBody({ sessionId, state, expiresAt }: SessionMeta): JsonObject {
  const body: Record<string, Json> = { sessionId };
  if (state !== undefined) body['state'] = state;
  if (expiresAt !== undefined) body['expiresAt'] = expiresAt;
  return body;
}

/** Whether a reading is a session, as opposed to absent, gone or invalid. */
export function isSession(reading: SessionReading): reading is SessionMeta {
  return typeof reading === 'object' && reading !== null && 'sessionId' in reading;
}

function idOf(reading: SessionReading): unknown {
  return isSession(reading) ? reading.sessionId : reading === null ? null : undefined;
}

/** Whether the value is a date. Any other `expiresAt` hint is ignored. */
function isTimestamp(value: unknown): value is string {
  return typeof value === 'string' && value.length <= 64 && !Number.isNaN(Date.parse(value));
}
