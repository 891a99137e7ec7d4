import { isObject } from '../core/json.ts';
import type { Params, Result } from '../core/message.ts';
import { DRAFTS, type Era, NAMES, type Names } from './names.ts';
import { isProblem, type Problem } from './problem.ts';
import {
  isSession,
  readSession,
  readSessionObject,
  type SessionMeta,
  type SessionReading,
  sessionBody,
  withSeq,
  writeSession,
} from './session.ts';

/** The operation of a session method, independent of its spelling. */
export type SessionVerb = keyof Names['method'];

/** A session as shown in a list, without its state. */
export interface SessionSummary {
  readonly sessionId: string;
  readonly expiresAt?: string;
  readonly label?: string;
}

/** One page of sessions. */
export interface SessionPage {
  readonly sessions: readonly SessionSummary[];
  readonly nextCursor?: string;
}

/** The maximum length of a label. */
export const MAX_LABEL = 256;
const MAX_CURSOR = 4096;
const MAX_PAGE = 10_000;

const VERBS = new Map<string, { readonly verb: SessionVerb; readonly era: Era }>();
for (const [methods, era] of [
  [DRAFTS.method, 'legacy'],
  [NAMES.legacy.method, 'legacy'],
  [NAMES.modern.method, 'modern'],
] as const) {
  for (const [verb, method] of Object.entries(methods)) VERBS.set(method, { verb: verb as SessionVerb, era });
}

/** Returns the operation of a session method, spelled as in either era or a draft. Returns undefined for any other method. */
export function sessionMethod(method: string): { readonly verb: SessionVerb; readonly era: Era } | undefined {
  return VERBS.get(method);
}

/** Returns the params that create a session. Without a label there are no params, as in the draft. */
export function createParams({ label }: { readonly label?: string | undefined } = {}): Params | undefined {
  return label === undefined ? undefined : { hints: { label } };
}

/** Reads the params that create a session. Metadata of another session in them is a {@link Problem}. */
export function readCreateParams(params: unknown): { readonly label?: string } | Problem {
  if (params === undefined) return {};
  if (!isObject(params)) return { problem: 'wrong-type', where: 'params' };
  if (readSession(params._meta) !== undefined) return { problem: 'bad-value', where: 'params._meta' };
  return readLabel(params);
}

/** Returns the params that name a session to delete, resume or fork. */
export function targetParams(
  era: Era,
  session: SessionMeta,
  { label }: { readonly label?: string | undefined } = {},
): Params {
  return { ...createParams({ label }), _meta: writeSession(era, session) };
}

/** Reads the session that the params name, and the label of the new session for a fork. Early drafts put the id in the params. */
export function readTargetParams(
  params: unknown,
): { readonly session: SessionMeta; readonly label?: string } | Problem {
  if (!isObject(params)) return { problem: 'incomplete', where: 'params._meta' };
  const reading: SessionReading = readSession(params._meta) ?? readSessionObject(params, 'params');
  if (!isSession(reading)) return reading ?? { problem: 'incomplete', where: 'params._meta' };
  const labelled = readLabel(params);
  return isProblem(labelled) ? labelled : { session: reading, ...labelled };
}

/** Returns the result of create, resume and fork. The codec of the request completes it. */
export function sessionResult(session: SessionMeta): Result {
  return {
    session: sessionBody(session),
    ...(session.seq === undefined ? {} : { _meta: { [NAMES.modern.seq]: session.seq } }),
  };
}

/** Reads the result of create, resume and fork. The session is in the body or, in earlier drafts, flat or only in `_meta`. */
export function readSessionResult(result: unknown): SessionMeta | Problem {
  if (!isObject(result)) return { problem: 'wrong-type', where: 'result' };
  if (result.session === undefined && result.id === undefined) {
    return readSession(result._meta) ?? { problem: 'incomplete', where: 'result.session' };
  }
  const session =
    result.session === undefined
      ? readSessionObject(result, 'result')
      : readSessionObject(result.session, 'result.session');
  return isProblem(session) || !isObject(result._meta)
    ? session
    : withSeq(session, result._meta[NAMES.modern.seq]);
}

/** Returns the params that request a page of sessions. */
export function listParams({ cursor }: { readonly cursor?: string | undefined } = {}): Params | undefined {
  return cursor === undefined ? undefined : { cursor };
}

/** Reads the params that request a page of sessions. */
export function readListParams(params: unknown): { readonly cursor?: string } | Problem {
  if (params === undefined) return {};
  if (!isObject(params)) return { problem: 'wrong-type', where: 'params' };
  const { cursor } = params;
  if (cursor === undefined || cursor === null) return {};
  return isCursor(cursor) ? { cursor } : { problem: 'bad-value', where: 'params.cursor' };
}

/** Returns a page of sessions as a result. The codec of the request completes it. */
export function listResult({ sessions, nextCursor }: SessionPage): Result {
  return {
    sessions: sessions.map(({ sessionId, expiresAt, label }) => ({
      sessionId,
      ...(expiresAt === undefined ? {} : { expiresAt }),
      ...(label === undefined ? {} : { label }),
    })),
    ...(nextCursor === undefined ? {} : { nextCursor }),
  };
}

/** Reads a page of sessions. Invalid entries are ignored. */
export function readListResult(result: unknown): SessionPage | Problem {
  if (!isObject(result) || !Array.isArray(result.sessions)) {
    return { problem: 'wrong-type', where: 'result.sessions' };
  }
  if (result.sessions.length > MAX_PAGE) return { problem: 'too-many', where: 'result.sessions' };
  const sessions: SessionSummary[] = [];
  for (const entry of result.sessions as unknown[]) {
    const session = readSessionObject(entry, 'result.sessions');
    if (isProblem(session) || !isObject(entry)) continue;
    const label = entry.label ?? session.data?.title;
    sessions.push({
      sessionId: session.sessionId,
      ...(session.expiresAt === undefined ? {} : { expiresAt: session.expiresAt }),
      ...(isLabel(label) ? { label } : {}),
    });
  }
  const { nextCursor } = result;
  return isCursor(nextCursor) ? { sessions, nextCursor } : { sessions };
}

/** Whether the value is a position in a list or a stream: opaque text of a limited length. */
export function isCursor(value: unknown): value is string {
  return typeof value === 'string' && value.length > 0 && value.length <= MAX_CURSOR;
}

function readLabel({ hints }: Record<string, unknown>): { readonly label?: string } | Problem {
  if (!isObject(hints)) return {};
  const label = hints.label ?? (isObject(hints.data) ? hints.data.title : undefined);
  if (label === undefined || label === null) return {};
  return isLabel(label) ? { label } : { problem: 'bad-value', where: 'params.hints.label' };
}

function isLabel(value: unknown): value is string {
  return typeof value === 'string' && value.length > 0 && value.length <= MAX_LABEL;
}

const { resourceAllocation } = NAMES.modern.annotation;

/** Whether a tool, as listed by `tools/list`, declares that its sessions hold expensive resources. */
export function allocatesResources(tool: unknown): boolean {
  return isObject(tool) && isObject(tool.annotations) && tool.annotations[resourceAllocation] === true;
}
