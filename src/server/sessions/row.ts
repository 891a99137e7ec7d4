import { isObject, type JsonObject } from '../../json.ts';
import type { Schema } from '../../store/kit/collection.ts';
import { type Data, readData } from './data.ts';
import type { EndReason } from './hooks.ts';

/** What the store holds about a session. Times are milliseconds since 1970. */
export interface Row {
  readonly id: string;
  /** Whose it is, as a digest; null where it belongs to whoever has its id. */
  readonly owner: string | null;
  /** The list that it stands in, and is listed by. */
  readonly shelf: string;
  /** Other lists in which it has a place, for limits. */
  readonly places?: readonly string[];
  readonly label: string | null;
  readonly created: number;
  readonly expires: number;
  /** The end that no use puts off. */
  readonly until: number;
  readonly seq: number;
  /** Null where the state is with the client. */
  readonly data: Data | null;
  /** Why it is over; a row stays for as long as a seal of the session could be shown. */
  readonly ended: EndReason | null;
  /** True once the author has been told of the end. */
  readonly told: boolean;
  /** There while the author's hook prepares the session; `expires` is then when its instance is taken for dead. */
  readonly beginning?: true;
  /** Binds the record to its session under the server's keys; missing if there are none. */
  readonly proof?: string;
}

/** How long a hook of the author's may take before its instance is taken for dead, in seconds. */
export const HOOK_TIME = 300;

const MAX_TIME = 8.64e15;

/** How rows are stored. */
export const ROWS: Schema<Row> = {
  kind: 'session record',
  version: 1,
  read: (record) => readRow(record),
  write: (row) => row as unknown as JsonObject,
};

/** Reads a row; undefined if it is damaged. */
export function readRow(value: unknown): Row | undefined {
  if (!isObject(value) || typeof value['id'] !== 'string' || typeof value['shelf'] !== 'string')
    return undefined;
  for (const name of ['created', 'expires', 'until', 'seq']) {
    // What a Date cannot hold is no time, and throws where it is shown.
    if (typeof value[name] !== 'number' || !(Math.abs(value[name]) <= MAX_TIME)) return undefined;
  }
  if (value['data'] !== null && !readData(value['data'])) return undefined;
  const { places } = value;
  if (places !== undefined && !(Array.isArray(places) && places.every((name) => typeof name === 'string')))
    return undefined;
  return value as unknown as Row;
}

/** True while nobody can use the session yet; whoever is beginning it tells of its end. */
export function isBeginning({ beginning, expires }: Row, now = Date.now()): boolean {
  return beginning === true && expires > now;
}

/** True where a session can still be used, or soon. */
export function isLiving({ ended, expires }: Row, now = Date.now()): boolean {
  return ended === null && expires > now;
}

/** What the ids begin with of sessions that stand in for one of a transport. After such a session another may have its id. */
export const STAND_IN = 'implicit-';

export function isStandIn(id: string): boolean {
  return id.startsWith(STAND_IN);
}
