import { isObject, type JsonObject } from '../../core/json.ts';
import { sha256 } from '../../core/sha256.ts';
import { inspectToken, SealError } from '../../seal/index.ts';
import { type Collection, collection, type Schema } from '../../store/kit/collection.ts';
import { secondsUntil } from '../../store/kit/update.ts';
import { namespaced } from '../../store/namespace.ts';
import type { PutOptions, Store } from '../../store/types.ts';
import type { ServerContext } from '../context.ts';
import { type Caller, type Held, Quota } from '../quota.ts';
import { Recent } from '../recent.ts';
import { tooMuch } from './errors.ts';
import type { SessionsSettings } from './options.ts';
import type { EndReason } from './session.ts';
import { readValues, type Values } from './session-state.ts';

/** The record of a session. Times are in milliseconds since 1970. */
export interface SessionRecord {
  readonly id: string;
  /** A digest of the principal, or null if the session belongs to whoever has its id. */
  readonly owner: string | null;
  /** The list of the session index that shows the session to its owner, or '' if no list does. */
  readonly index: string;
  /** Other lists of the index, which only count the session toward a limit. */
  readonly places?: readonly string[];
  readonly label: string | null;
  readonly created: number;
  readonly expires: number;
  /** The end that no use postpones. */
  readonly until: number;
  readonly seq: number;
  /** The session's state, or null if it is with the client. */
  readonly data: Values | null;
  /** Why the session ended. The record is then a tombstone, and stays for as long as a seal of the session could be presented. */
  readonly ended: EndReason | null;
  /** Whether `onEnd` has been called. */
  readonly announced: boolean;
  /** The version of `dev.valise/sessions` that the session was made with and keeps, `MAJOR.MINOR`. Absent means 1.0. */
  readonly version?: string;
  /** Set while `onCreate` prepares the session. `expires` is then when its instance is presumed dead. */
  readonly preparing?: true;
  /** Binds the record to its session under the server's keys. Missing if there are no keys. */
  readonly proof?: string;
}

/** A record in the store, and the version by which it can be replaced. */
export interface StoredRecord {
  readonly record: SessionRecord;
  readonly version: string;
}

/** Options of {@link SessionRecords.replace}. */
export interface ReplaceOptions {
  /** The record as it was last read, so that the first attempt need not read it. */
  readonly seen?: StoredRecord | undefined;
  /** How long the new record stays, in seconds. The default is its session's lifetime and a while after. */
  readonly ttl?: number | undefined;
}

/** Where the session records of all servers are in a store: under this prefix, in this folder. */
export const SESSION_RECORDS = { prefix: 'sessions/', folder: '/record/' } as const;

/** The id prefix of default sessions. A later one may have the same id. */
export const DEFAULT_ID = 'implicit-';

/** How long a record stays after its session expired, in seconds, if `onEnd` has yet to be called. */
export const LINGER = 86_400;

const MAX_TIME = 8.64e15;

const SCHEMA: Schema<SessionRecord> = {
  kind: 'session record',
  version: 1,
  read: readRecord,
  write: (record) => record as unknown as JsonObject,
};

/** Reads a session record. Returns undefined if it is damaged. */
export function readRecord(value: unknown): SessionRecord | undefined {
  if (!isObject(value) || typeof value['id'] !== 'string' || typeof value['index'] !== 'string')
    return undefined;
  for (const name of ['created', 'expires', 'until', 'seq']) {
    // A number that a Date cannot hold is not a time, and throws when it is formatted.
    if (typeof value[name] !== 'number' || !(Math.abs(value[name]) <= MAX_TIME)) return undefined;
  }
  if (value['data'] !== null && !readValues(value['data'])) return undefined;
  const { places } = value;
  if (places !== undefined && !(Array.isArray(places) && places.every((name) => typeof name === 'string')))
    return undefined;
  return value as unknown as SessionRecord;
}

/** Whether a session has neither ended nor expired. It may still be in preparation. */
export function isAlive({ ended, expires }: SessionRecord, now = Date.now()): boolean {
  return ended === null && expires > now;
}

/** Whether an id is that of a default session. */
export function isDefaultSession(id: string): boolean {
  return id.startsWith(DEFAULT_ID);
}

/** Whether `onCreate` is preparing the session. Whoever prepares it reports its end. */
export function isPreparing({ preparing, expires }: SessionRecord, now = Date.now()): boolean {
  return preparing === true && expires > now;
}

/** Returns how long the tombstone of a session stays, in seconds: as long as a seal of the session can be presented. */
export function tombstoneTtl({ ttl, onEnd }: SessionsSettings): number {
  return Math.max(ttl, onEnd ? LINGER : 0);
}

/** The records of a server's sessions in its store. */
export class SessionRecords {
  /** The part of the store that belongs to the server's sessions. */
  readonly store: Store;
  readonly #records: Collection<SessionRecord>;
  readonly #linger: number;
  readonly #proof: RecordProof;
  /** Counts the bytes of state in anonymous sessions. */
  readonly #bytes: Quota;

  constructor(store: Store, context: ServerContext, { onEnd, maxAnonymousBytes }: SessionsSettings) {
    this.store = namespaced(store, `${SESSION_RECORDS.prefix}${sha256(context.name).slice(0, 16)}/`);
    this.#records = collection(this.store, 'record/', SCHEMA, { unlisted: true, durable: true });
    this.#linger = onEnd ? LINGER : 0;
    this.#proof = new RecordProof(context);
    this.#bytes = new Quota({
      perCaller: { bytes: maxAnonymousBytes / 10 },
      total: { bytes: maxAnonymousBytes },
    });
  }

  /** Returns the record of a session. Throws `store-newer` if a later release wrote it. */
  async find(id: string): Promise<StoredRecord | undefined> {
    const found = await this.#records.get(sha256(id));
    const record = found?.value;
    return record && this.#proof.isGenuine(id, record) ? { record, version: found.version } : undefined;
  }

  /** Writes the record of a new session. */
  async add(record: SessionRecord): Promise<StoredRecord> {
    return { record, version: (await this.#put(record, {})) ?? '' };
  }

  /** Writes a record in place of one that was read. Returns false if somebody else has changed it. */
  async save(record: SessionRecord, { version }: StoredRecord, ttl?: number): Promise<string | undefined> {
    return this.#put(record, { ifVersion: version }, ttl);
  }

  /**
   * Replaces a record with what `change` returns, even if others change it at the same time.
   *
   * Returns undefined if `change` leaves the record as it is, or if the record is unreadable or not genuine, since another
   * instance may depend on it.
   */
  async replace(
    id: string,
    change: (record: SessionRecord | undefined) => SessionRecord | undefined,
    { seen, ttl }: ReplaceOptions = {},
  ): Promise<StoredRecord | undefined> {
    let next: SessionRecord | undefined;
    let count: ByteCount | undefined;
    let version: unknown;
    try {
      version = await this.#records.update(
        sha256(id),
        (found) => {
          const record = found?.value && this.#proof.isGenuine(id, found.value) ? found.value : undefined;
          next = found && !record ? undefined : change(record);
          count?.undo();
          count = next && this.#count(next, ttl ?? this.#ttl(next));
          return next && this.#proof.signed(next);
        },
        {
          ttl: () => ttl ?? (next ? this.#ttl(next) : undefined),
          seen: seen && { found: { value: seen.record, version: seen.version } },
        },
      );
    } finally {
      if (typeof version === 'string') count?.done();
      else count?.undo();
    }
    return next && typeof version === 'string' ? { record: next, version } : undefined;
  }

  async remove(id: string): Promise<void> {
    await this.#records.delete(sha256(id));
    this.#bytes.release(id);
  }

  /** Counts state of an anonymous session. Throws if it exceeds the limit. Returns a function that undoes the count. */
  countBytes(callerList: string | undefined, held: Held): () => void {
    const caller: Caller = { name: callerList, isAnonymous: true };
    const taken = this.#bytes.take(caller, held);
    if (typeof taken === 'function') return taken;
    throw tooMuch(`sessions.maxAnonymousBytes${taken === 'caller-bytes' ? ', the share of one caller' : ''}`);
  }

  /** Undoes {@link countBytes}. */
  releaseBytes(key: string | symbol): void {
    this.#bytes.release(key);
  }

  async #put(
    record: SessionRecord,
    condition: Pick<PutOptions, 'ifVersion'>,
    ttl = this.#ttl(record),
  ): Promise<string | undefined> {
    const count = this.#count(record, ttl);
    const version = await this.#records.put(sha256(record.id), this.#proof.signed(record), {
      ttl,
      ...condition,
    });
    if (version === undefined) count.undo();
    else count.done();
    return version;
  }

  /** Counts the state of a record that is about to be written. Throws if an anonymous session exceeds the limit. */
  #count({ id, owner, data, places }: SessionRecord, ttl: number): ByteCount {
    if (owner !== null || data === null)
      return { undo: () => undefined, done: () => this.#bytes.release(id) };
    const bytes = Buffer.byteLength(JSON.stringify(data));
    const list = places?.find((each) => each.startsWith(CALLER_LIST));
    return { undo: this.countBytes(list, { key: id, bytes, ttl }), done: () => undefined };
  }

  #ttl({ expires }: SessionRecord): number {
    return secondsUntil(expires) + this.#linger;
  }
}

/** The count of a record's bytes, before the record is written. */
interface ByteCount {
  /** Called if the record was not written. */
  undo(): void;
  /** Called if it was. */
  done(): void;
}

/** The prefix of lists that count the anonymous sessions of a caller. */
export const CALLER_LIST = 'caller/';

const PROOF_PURPOSE = 'session-record';
/** The number of genuine records that are remembered. */
const MAX_PROVED = 4096;

/**
 * Binds session records to their session under the server's keys: id, owner, list, creation time and latest end.
 *
 * Somebody who can write to the store but has no keys cannot give a session to somebody else, invent one, or prolong one. The
 * values are not bound; use a sealed store for that.
 */
class RecordProof {
  /** Undefined if there is nothing to prove by: a generated key differs after a restart and in each instance. */
  readonly #sealer: ServerContext['sealer'] | undefined;
  /** The claims of each proof that has been opened. Proofs do not change, so each is opened once. */
  readonly #proved = new Recent<string>(MAX_PROVED);

  constructor({ store, sealer }: ServerContext) {
    this.#sealer = store && !sealer.ephemeral ? sealer : undefined;
  }

  /** Returns the record with a proof by the first key. */
  signed(record: SessionRecord): SessionRecord {
    const sealer = this.#sealer;
    if (!sealer || (record.proof !== undefined && inspectToken(record.proof).kid === sealer.kid))
      return record;
    const ttl = Math.max(1, (record.until - Date.now()) / 1000) + LINGER;
    const claims = claimsOf(record);
    const proof = sealer.seal(null, { purpose: PROOF_PURPOSE, bind: claims, ttl });
    this.#proved.set(proof, JSON.stringify(claims));
    return { ...record, proof };
  }

  /** Whether this server wrote the record of a session. Throws if the check needs a key that is not on the keyring. */
  isGenuine(id: string, record: SessionRecord): boolean {
    const { proof, ended, preparing, expires, until } = record;
    if (record.id !== id) return false;
    // A tombstone is trusted: whoever can write one could as well delete the record.
    if (!this.#sealer || ended !== null) return true;
    if (typeof proof !== 'string' || (!preparing && expires > until)) return false;
    const claims = claimsOf(record);
    const text = JSON.stringify(claims);
    if (this.#proved.get(proof) === text) return true;
    try {
      this.#sealer.open(proof, { purpose: PROOF_PURPOSE, bind: claims });
    } catch (error) {
      if (!(error instanceof SealError)) throw error;
      return false;
    }
    this.#proved.set(proof, text);
    return true;
  }
}

type Claims = [id: string, owner: string | null, index: string, created: number, until: number];

function claimsOf({ id, owner, index, created, until }: SessionRecord): Claims {
  return [id, owner, index, created, until];
}
