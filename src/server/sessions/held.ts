import type { SessionMeta } from '../../wire/index.ts';
import type { Caller } from '../quota.ts';
import type { SessionData } from './data.ts';
import type { SessionsSettings } from './options.ts';
import type { Found } from './registry.ts';
import type { Row } from './row.ts';

/** A session that proved itself, while one request works in it. */
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
  /** What the registry has about it. */
  readonly found: Found | undefined;
}

/** Who asks, in the two forms that seals and stores need. */
export interface Requester {
  /** The principal as seals bind to it. */
  readonly subject: string | undefined;
  /** The principal as rows name it. */
  readonly owner: string | null;
  /** The list that the requester's sessions stand in; undefined where nothing tells one requester from another. */
  readonly shelf: string | undefined;
  /** Whose share of a limit it counts toward. */
  readonly caller: Caller;
}

/** Why a session was not taken; told in an event, never to the client. */
export interface Refusal {
  readonly refused: string;
}

/** What became of a commit: what the response says about the session, or why it cannot be kept. */
export type Committed = SessionMeta | 'conflict' | 'gone';

/** Where sessions and their state are kept. */
export interface Keeping {
  /** Proves the session that a request names. A promise only where a store must be asked. */
  open(session: SessionMeta, requester: Requester): Held | Refusal | Promise<Held | Refusal>;
  /** Writes a new session's first state; what its creator is told comes back. */
  begin(held: Held, requester: Requester): Promise<{ readonly meta: SessionMeta; readonly row: Row }>;
  /** Keeps what a request changed. */
  commit(held: Held, requester: Requester): Committed | Promise<Committed>;
}

/** True where a reading is a refusal. */
export function isRefusal(opened: Held | Refusal): opened is Refusal {
  return 'refused' in opened;
}

/** When the session would end if it were used now. */
export function nextExpiry(
  { expires, until }: Pick<Held, 'expires' | 'until'>,
  { sliding, ttl }: SessionsSettings,
  now: number,
): number {
  return sliding ? Math.max(expires, Math.min(until, now + ttl * 1000)) : expires;
}

/** Use puts the end off in steps, so that most calls need not write it down. */
export function isExtensionDue(held: Held, settings: SessionsSettings, now: number): boolean {
  return nextExpiry(held, settings, now) - held.expires > (settings.ttl * 1000) / 10;
}

/** What a response says about a session. */
export function metaOf(id: string, expires: number, seq: number, state?: string): SessionMeta {
  const expiresAt = new Date(expires).toISOString();
  return state === undefined ? { sessionId: id, expiresAt, seq } : { sessionId: id, state, expiresAt, seq };
}

/** The row of a held session; `data` only where the server keeps it. */
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
  };
}
