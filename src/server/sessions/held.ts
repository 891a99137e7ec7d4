import type { SessionMeta } from '../../wire/index.ts';
import type { Caller } from '../quota.ts';
import type { SessionData } from './data.ts';
import type { SessionsSettings } from './options.ts';
import type { Found } from './registry.ts';
import type { Row } from './row.ts';

/** A proved session, while one request works in it. */
export interface Held {
  readonly id: string;
  readonly owner: string | null;
  readonly shelf: string;
  readonly places?: readonly string[];
  readonly label: string | undefined;
  readonly created: number;
  readonly expires: number;
  readonly until: number;
  readonly seq: number;
  readonly data: SessionData;
  /** The version of the extension that the session was made with, `MAJOR.MINOR`. Absent means 1.0. */
  readonly version?: string | undefined;
  /** The session's record in the registry. */
  readonly found: Found | undefined;
}

/** The principal or caller, in the forms that seals and stores need. */
export interface Requester {
  /** The principal as seals bind to it. */
  readonly subject: string | undefined;
  /** The principal as session records name it. */
  readonly owner: string | null;
  /** The list of the requester's sessions, or undefined if nothing tells one requester from another. */
  readonly shelf: string | undefined;
  /** The caller whose share of a limit the request counts toward. */
  readonly caller: Caller;
  /** The version of the extension that a new session is made with, `MAJOR.MINOR`. */
  readonly version: string;
}

/** Why a session was refused. It is reported in an event, never to the client. */
export interface Refusal {
  readonly refused: string;
}

/** The result of a commit: the session as the response states it, or why it could not be saved. */
export type Committed = SessionMeta | 'conflict' | 'gone';

/** The storage of sessions and their state. */
export interface Keeping {
  /** Proves the session that a request names. Returns a promise only if a store must be read. */
  open(session: SessionMeta, requester: Requester): Held | Refusal | Promise<Held | Refusal>;
  /** Creates a new session's first state. Returns the session for its creator and the record to store. */
  begin(held: Held, requester: Requester): Promise<{ readonly meta: SessionMeta; readonly row: Row }>;
  /** Saves what a request changed. */
  commit(held: Held, requester: Requester): Committed | Promise<Committed>;
}

/** Whether a session was refused. */
export function isRefusal(opened: Held | Refusal): opened is Refusal {
  return 'refused' in opened;
}

/** Returns the refusal of a session whose version this release does not support. Its record stays as it is. */
export function otherVersion({ version }: Row): Refusal {
  return { refused: `it was made with version ${version} of dev.valise/sessions` };
}

/** Returns when the session would end if it were used now. */
export function nextExpiry(
  { expires, until }: Pick<Held, 'expires' | 'until'>,
  { sliding, ttl }: SessionsSettings,
  now: number,
): number {
  return sliding ? Math.max(expires, Math.min(until, now + ttl * 1000)) : expires;
}

/** Whether use of the session must be recorded. The end is postponed in steps, so that most calls need not write it. */
export function isExtensionDue(held: Held, settings: SessionsSettings, now: number): boolean {
  return nextExpiry(held, settings, now) - held.expires > (settings.ttl * 1000) / 10;
}

/** Returns the session as a response states it. */
export function metaOf(id: string, expires: number, seq: number, state?: string): SessionMeta {
  const expiresAt = new Date(expires).toISOString();
  return state === undefined ? { sessionId: id, expiresAt, seq } : { sessionId: id, state, expiresAt, seq };
}

/** Returns the record of a held session. `data` is set only if the server stores it. */
export function rowOf(held: Held, data: Row['data']): Row {
  return {
    id: held.id,
    owner: held.owner,
    shelf: held.shelf,
    ...(held.places && { places: held.places }),
    label: held.label ?? null,
    created: held.created,
    expires: held.expires,
    until: held.until,
    seq: held.seq,
    data,
    ended: null,
    told: false,
    ...(held.version !== undefined && { version: held.version }),
  };
}
