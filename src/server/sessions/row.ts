import { isObject, type JsonObject } from '../../json.ts';
import type { Schema } from '../../store/kit/collection.ts';
import { type Data, readData } from './data.ts';
import type { EndReason } from './hooks.ts';

/** The stored record of a session. Times are in milliseconds since 1970. */
export interface Row {
  readonly id: string;
  /** A digest of the principal, or null if the session belongs to whoever has its id. */
  readonly owner: string | null;
  /** The list that contains the session and by which it is listed. */
  readonly shelf: string;
  /** Other lists in which it has a place, for limits. */
  readonly places?: readonly string[];
  readonly label: string | null;
  readonly created: number;
  readonly expires: number;
  /** The end that no use postpones. */
  readonly until: number;
  readonly seq: number;
  /** Null if the state is with the client. */
  readonly data: Data | null;
  /** Why the session ended. The record stays for as long as a seal of the session could be presented. */
  readonly ended: EndReason | null;
  /** Whether `onEnd` has been called. */
  readonly told: boolean;
  /** The version of `dev.valise/sessions` that the session was made with and keeps, `MAJOR.MINOR`. Absent means 1.0. */
  readonly version?: string;
  /** Set while `onCreate` prepares the session. `expires` is then when its instance is presumed dead. */
  readonly beginning?: true;
  /** Binds the record to its session under the server's keys. Missing if there are no keys. */
  readonly proof?: string;
}

/** How long a hook may take before its instance is presumed dead, in seconds. */
export const HOOK_TIME = 300;

const MAX_TIME = 8.64e15;

/** How session records are stored. */
export const ROWS: Schema<Row> = {
  kind: 'session record',
  version: 1,
  read: (record) => readRow(record),
  write: (row) => row as unknown as JsonObject,
};

/** Reads a session record. Returns undefined if it is damaged. */
export function readRow(value: unknown): Row | undefined {
  if (!isObject(value) || typeof value['id'] !== 'string' || typeof value['shelf'] !== 'string')
    return undefined;
  for (const name of ['created', 'expires', 'until', 'seq']) {
    // A number that a Date cannot hold is not a time, and throws when it is formatted.
    if (typeof value[name] !== 'number' || !(Math.abs(value[name]) <= MAX_TIME)) return undefined;
  }
  if (value['data'] !== null && !readData(value['data'])) return undefined;
  const { places } = value;
  if (places !== undefined && !(Array.isArray(places) && places.every((name) => typeof name === 'string')))
    return undefined;
  return value as unknown as Row;
}

/** Whether the session cannot be used yet because it is being prepared. Whoever prepares it reports its end. */
export function isBeginning({ beginning, expires }: Row, now = Date.now()): boolean {
  return beginning === true && expires > now;
}

/** Whether a session can be used, now or soon. */
export function isLiving({ ended, expires }: Row, now = Date.now()): boolean {
  return ended === null && expires > now;
}

/** The id prefix of sessions that stand in for a transport's session. A later stand-in may have the same id. */
export const STAND_IN = 'implicit-';

export function isStandIn(id: string): boolean {
  return id.startsWith(STAND_IN);
}
