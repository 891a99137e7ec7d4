import { sha256 } from '../../core/sha256.ts';
import { isUsable } from '../../wire/extension-version.ts';
import { knowsSessionExtension, type SessionMeta } from '../../wire/index.ts';
import type { Exchange } from '../exchange.ts';
import { principalKey } from '../principal.ts';
import type { Caller } from '../quota.ts';
import type { SessionRecord, StoredRecord } from './records.ts';
import type { SessionState } from './session-state.ts';

/** A session that a request works in. */
export interface OpenSession {
  /** The session as it was when the request came. If its state is with the client, `data` is null. */
  readonly record: SessionRecord;
  /** The session's state, and what the request changes in it. */
  readonly state: SessionState;
  /** The record in the store, if there is one. */
  readonly stored: StoredRecord | undefined;
}

/** Why a session was refused. It is reported in an event, never to the client. */
export interface Refusal {
  readonly refused: string;
}

/** The result of a commit: the session as the response states it, or why it could not be saved. */
export type Committed = SessionMeta | 'conflict' | 'gone';

/** Where the state of sessions is: sealed at the client, or in the server's store. */
export interface SessionBackend {
  /** Authenticates the session that a request names, and loads its state. */
  open(session: SessionMeta, requester: Requester): Promise<OpenSession | Refusal>;
  /** Returns a new session as its creator gets it, and the record to store. */
  begin(
    session: OpenSession,
    requester: Requester,
  ): Promise<{ readonly meta: SessionMeta; readonly record: SessionRecord }>;
  /** Saves what a request changed, and extends the session's expiry. */
  commit(session: OpenSession, requester: Requester): Promise<Committed>;
}

/** The principal or caller of a request, in the forms that seals and stores need. */
export interface Requester {
  /** The principal as seals bind to it. */
  readonly subject: string | undefined;
  /** The principal as session records name it. */
  readonly owner: string | null;
  /** The list of the requester's sessions, or undefined if nothing tells one requester from another. */
  readonly index: string | undefined;
  /** The caller whose share of a limit the request counts toward. */
  readonly caller: Caller;
  /** The version of the extension that a new session is made with, `MAJOR.MINOR`. */
  readonly version: string;
}

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
    get index() {
      if (owner !== null) return `principal/${owner}`;
      return transportSession === undefined ? undefined : `transport/${sha256(transportSession)}`;
    },
  };
}

/** Whether a session was refused. */
export function isRefusal(opened: OpenSession | Refusal): opened is Refusal {
  return 'refused' in opened;
}

/** Refuses a session whose version of the extension this release does not support. Its record stays as it is. */
export function refuseVersion(version: string | undefined): Refusal | undefined {
  if (version === undefined || version === '1.0' || isUsable('sessions', version)) return undefined;
  return { refused: `it was made with version ${version} of dev.valise/sessions` };
}

/** Returns the session as a response states it. */
export function metaOf(
  { id, expires, seq }: Pick<SessionRecord, 'id' | 'expires' | 'seq'>,
  state?: string,
): SessionMeta {
  const expiresAt = new Date(expires).toISOString();
  return state === undefined ? { sessionId: id, expiresAt, seq } : { sessionId: id, state, expiresAt, seq };
}

/** Returns the session as the client gets it. The number of its state is included only if the client knows what that is. */
export function metaFor(exchange: Exchange, session: SessionMeta): SessionMeta {
  if (session.seq === undefined || knowsSessionExtension(exchange.spelling, exchange.peer.capabilities))
    return session;
  const { seq: _, ...others } = session;
  return others;
}
