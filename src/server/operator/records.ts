import { isObject, type Json } from '../../core/json.ts';
import { kidOf } from '../../seal/token.ts';
import { entriesUnder } from '../../store/page.ts';
import type { Store } from '../../store/types.ts';
import type { Continuation } from '../flows/continuation.ts';
import { FLOW_CONTEXTS } from '../flows/continuation-store.ts';
import { isDefaultSession, isPreparing, readRecord, SESSION_RECORDS } from '../sessions/records.ts';

/** A session in the store of a server, without its state. */
export interface StoredSession {
  /** Its key in the store, which identifies it to {@link sessionAt}. */
  readonly key: string;
  /** The beginning of its id. Whoever has the whole id may be able to use the session. */
  readonly id: string;
  /** The beginning of the principal's digest. Undefined if the session is anonymous. */
  readonly principal: string | undefined;
  readonly label: string | undefined;
  /** Times are in milliseconds since 1970. */
  readonly created: number;
  readonly expires: number;
  readonly ended: string | null;
  /** Whether its state is in the store, or sealed with the client. */
  readonly isStored: boolean;
  /** Whether it stands in for the session of a transport. */
  readonly isStandIn: boolean;
}

/** A flow whose context is in the store of a server. */
export interface StoredFlow {
  readonly id: string;
  /** The key that seals its record. */
  readonly kid: string | undefined;
  /** The rest is undefined if the record could not be opened. */
  readonly tool?: string | undefined;
  readonly round?: number;
  readonly questions?: readonly string[];
  /** Times are in milliseconds since 1970. */
  readonly since?: number;
  readonly until?: number;
  /** Names of the effects (`flow.once`) that are done. */
  readonly effects?: readonly string[];
}

/** How many records of each kind are read. */
const MOST = 10_000;

/** Returns the sessions in a server's store. */
export async function storedSessions(store: Store): Promise<StoredSession[]> {
  const found: StoredSession[] = [];
  for await (const [key, { value }] of entriesUnder(store, SESSION_RECORDS.prefix)) {
    const record = key.includes(SESSION_RECORDS.folder) ? readRecord(value) : undefined;
    if (!record || isPreparing(record)) continue;
    found.push({
      key,
      id: `${record.id.slice(0, 8)}…`,
      principal: record.owner?.slice(0, 10),
      label: record.label ?? undefined,
      created: record.created,
      expires: Math.min(record.expires, record.until),
      ended: record.ended ?? (record.expires <= Date.now() ? 'expired' : null),
      isStored: record.data !== null,
      isStandIn: isDefaultSession(record.id),
    });
    if (found.length >= MOST) break;
  }
  return found;
}

/** Returns the id of the session whose record has this key, or undefined if there is none. */
export async function sessionAt(store: Store, key: string): Promise<string | undefined> {
  if (!key.startsWith(SESSION_RECORDS.prefix) || !key.includes(SESSION_RECORDS.folder)) return undefined;
  return readRecord((await store.get(key))?.value)?.id;
}

/**
 * Returns the flows whose context is in a server's store. `open` opens a record, or returns undefined if it cannot.
 */
export async function storedFlows(
  store: Store,
  open: (key: string, token: string) => unknown,
): Promise<StoredFlow[]> {
  const found: StoredFlow[] = [];
  for await (const [key, { value }] of entriesUnder(store, FLOW_CONTEXTS)) {
    found.push({
      id: key.slice(-8),
      kid: kidOf(value, Number.POSITIVE_INFINITY),
      ...flowIn(value, key, open),
    });
    if (found.length >= MOST) break;
  }
  return found;
}

function flowIn(
  value: Json,
  key: string,
  open: (key: string, token: string) => unknown,
): Partial<StoredFlow> {
  const record = typeof value === 'string' ? open(key, value) : value;
  if (!isObject(record) || !isObject(record['context'])) return {};
  const { t, e, n, q = [], j = [], o } = record['context'] as unknown as Continuation;
  const tool = record['tool'] ?? o?.p?.['name'];
  return {
    tool: typeof tool === 'string' ? tool : undefined,
    round: n,
    questions: q.map(([name]) => name),
    since: t * 1000,
    until: e * 1000,
    effects: j.flatMap(([name, kind]) => (kind === 'o' ? [name] : [])),
  };
}
