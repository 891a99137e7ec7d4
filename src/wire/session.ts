import { isObject, type Json, type JsonObject } from '../json.ts';
import { withoutMeta } from './copy.ts';
import { isShallow } from './dict.ts';
import type { Meta, Result } from './message.ts';
import { DRAFTS, type Era, NAMES } from './names.ts';
import type { Problem } from './problem.ts';

/** A session as messages carry it. */
export interface SessionMeta {
  /** Visible ASCII, never rewritten by either side. */
  readonly sessionId: string;
  /** The server's sealed text: opaque to the client, echoed exactly. */
  readonly state?: string;
  /** ISO 8601; a hint for people, never a reason to refuse a call. */
  readonly expiresAt?: string;
  /** Counts the versions of `state`, so that an older answer never overwrites a newer one. */
  readonly seq?: number;
  /** What the first drafts carried in place of `state`. Read, never written. */
  readonly data?: JsonObject;
}

/**
 * What a message says about its session: nothing (`undefined`), that it is gone (`null`), which one, or something
 * that cannot be one.
 */
export type SessionReading = SessionMeta | null | undefined | Problem;

/** A longer session id is refused: it also travels in an HTTP header. */
export const MAX_SESSION_ID = 2048;

const MODERN = NAMES.modern.session;
const LEGACY = NAMES.legacy.session;
const DRAFT = DRAFTS.session;
const SEQ = NAMES.modern.seq;

/** True for 1 to {@link MAX_SESSION_ID} visible ASCII characters, 0x21 to 0x7E. */
export function isSessionId(id: unknown): id is string {
  return typeof id === 'string' && id.length <= MAX_SESSION_ID && /^[\x21-\x7e]+$/.test(id);
}

/**
 * Reads the session from the `_meta` of params or a result, as every draft version wrote it. Nothing throws.
 *
 * @example
 * ```ts
 * const session = readSession(request.params?._meta);
 * if (isProblem(session)) return { code: INVALID_PARAMS, message: `Invalid session metadata: ${session.where}` };
 * ```
 */
export function readSession(meta: unknown): SessionReading {
  if (!isObject(meta)) return undefined;
  // Named one by one: this runs on every message, and most of them belong to no session.
  const modern = meta[MODERN];
  const legacy = meta[LEGACY];
  const draft = meta[DRAFT];
  if (modern === undefined && legacy === undefined && draft === undefined) return undefined;
  const found = also(also(readValue(modern, MODERN), legacy, LEGACY), draft, DRAFT);
  return isSession(found) ? withSeq(found, meta[SEQ]) : found;
}

/** What is found where another place may say it too. Where they disagree, a gateway may have checked one of them and we would use the other. */
function also(found: SessionReading, value: unknown, key: string): SessionReading {
  if (value === undefined) return found;
  const reading = readValue(value, key);
  if (found === undefined) return reading;
  return idOf(found) === idOf(reading) ? found : { problem: 'conflict', where: key };
}

function readValue(value: unknown, where: string): SessionReading {
  return value === undefined || value === null ? value : readSessionObject(value, where);
}

/** Reads a session from a result's body or from under its `_meta` key; `where` is for the {@link Problem}. */
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

/** Adds the sequence number that stands beside the session, where there is a usable one. */
export function withSeq(session: SessionMeta, seq: unknown): SessionMeta {
  return Number.isSafeInteger(seq) && (seq as number) >= 0 ? { ...session, seq: seq as number } : session;
}

/**
 * Writes a session into a `_meta` fragment. The sequence stands beside the session, not in it, so that the
 * session itself is exactly what the draft defines; give one only to a peer that announced `dev.valise/sessions`.
 */
export function writeSession(era: Era, session: SessionMeta): Meta {
  const names = NAMES[era];
  const fragment: Record<string, unknown> = { [names.session]: sessionBody(session) };
  if (session.seq !== undefined) fragment[names.seq] = session.seq;
  return fragment;
}

const KEYS = [MODERN, LEGACY, DRAFT, SEQ];

/** A result without its session, in any spelling: whoever keeps the session leaves nothing of it to the host. */
export function withoutSession(result: Result): Result {
  return withoutMeta(result, KEYS);
}

/** The session object itself, with the draft's fields alone. */
export function sessionBody({ sessionId, state, expiresAt }: SessionMeta): JsonObject {
  const body: Record<string, Json> = { sessionId };
  if (state !== undefined) body['state'] = state;
  if (expiresAt !== undefined) body['expiresAt'] = expiresAt;
  return body;
}

/** True where a reading is a session, neither absent nor gone nor broken. */
export function isSession(reading: SessionReading): reading is SessionMeta {
  return typeof reading === 'object' && reading !== null && 'sessionId' in reading;
}

function idOf(reading: SessionReading): unknown {
  return isSession(reading) ? reading.sessionId : reading === null ? null : undefined;
}

/** A hint that is no date is no hint. */
function isTimestamp(value: unknown): value is string {
  return typeof value === 'string' && value.length <= 64 && !Number.isNaN(Date.parse(value));
}
