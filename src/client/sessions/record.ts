import type { ValiseError } from '../../errors.ts';
import { sha256 } from '../../sha256.ts';
import { type Collection, collection, type Schema } from '../../store/kit/collection.ts';
import { withLease } from '../../store/kit/lease.ts';
import type { Store } from '../../store/types.ts';
import { isSessionId } from '../../wire/index.ts';
import type { Account } from '../account.ts';

/** A session as this client knows it, in memory and in the store. */
export interface SessionRecord {
  readonly target: string;
  /** The account that the session belongs to; see `Account`. */
  readonly account: string;
  readonly id: string;
  readonly label: string | undefined;
  readonly state: string | undefined;
  readonly seq: number | undefined;
  readonly expiresAt: string | undefined;
  /** The time of the last use, in milliseconds since 1970. */
  readonly usedAt: number;
}

/** How long an unused session is stored, in seconds. */
const TTL = 90 * 86_400;
const MAX_SESSIONS = 10_000;

/** The stored sessions of one principal, separate for each server. A session is never sent to another server. */
export class SessionRecords {
  readonly #store: Store;
  readonly #prefix: string;
  readonly #records: Collection<SessionRecord>;
  readonly #newer: (error: ValiseError) => void;

  /** Calls `newer` for session records that a later release has written. They are left unchanged. */
  constructor(store: Store, principal: string, newer: (error: ValiseError) => void) {
    this.#store = store;
    this.#prefix = `kept-sessions/${sha256(principal)}/`;
    this.#records = collection(store, '', SESSION_RECORD);
    this.#newer = newer;
  }

  async get(target: string, id: string, account: Account): Promise<SessionRecord | undefined> {
    const record = (await this.#records.get(this.#key(target, id)))?.value;
    return record?.target === target && account.owns(record.account) ? record : undefined;
  }

  /** Lists the sessions of one server or all, and of one account or all, most recently used first. */
  async list(target?: string, account?: Account): Promise<readonly SessionRecord[]> {
    const found: SessionRecord[] = [];
    const prefix = target === undefined ? this.#prefix : this.#folder(target);
    for await (const page of this.#records.pages(prefix, this.#newer)) {
      for (const [, { value: record }] of page) {
        if (!record || (target !== undefined && record.target !== target)) continue;
        if (!account || account.owns(record.account)) found.push(record);
      }
      if (found.length >= MAX_SESSIONS) break;
    }
    return found.sort((a, b) => b.usedAt - a.usedAt);
  }

  /** Stores the metadata of a response. If another process has stored a later state meanwhile, keeps that one and returns it. */
  async save(record: SessionRecord): Promise<SessionRecord | undefined> {
    let later: SessionRecord | undefined;
    await this.#records.update(
      this.#key(record.target, record.id),
      (found) => {
        const now = found?.value;
        const isOurs = now?.target === record.target && now.account === record.account;
        const isLater = now?.seq !== undefined && record.seq !== undefined && now.seq > record.seq;
        later = isOurs && isLater ? now : undefined;
        return later ? undefined : record;
      },
      { ttl: TTL },
    );
    return later;
  }

  async remove(target: string, id: string): Promise<boolean> {
    return this.#store.delete(this.#key(target, id));
  }

  /** Runs `work` while no other process does so for the same label. */
  withLabel<Value>(target: string, label: string, work: () => Promise<Value>): Promise<Value> {
    const key = `lock/${this.#folder(target)}${sha256(label)}`;
    return withLease(this.#store, key, work);
  }

  #folder(target: string): string {
    return `${this.#prefix}${sha256(target)}/`;
  }

  #key(target: string, id: string): string {
    return `${this.#folder(target)}${sha256(id)}`;
  }
}

/** The schema of session records. Others can write the store's file, so an entry that is not a session is ignored. */
export const SESSION_RECORD: Schema<SessionRecord> = {
  kind: 'kept session',
  version: 1,
  read({ target, account, id, label, state, seq, expiresAt, usedAt }) {
    if (typeof target !== 'string' || !isSessionId(id)) return undefined;
    return {
      target,
      account: typeof account === 'string' ? account : '',
      id,
      label: typeof label === 'string' ? label : undefined,
      state: typeof state === 'string' ? state : undefined,
      seq: Number.isSafeInteger(seq) ? (seq as number) : undefined,
      expiresAt: typeof expiresAt === 'string' ? expiresAt : undefined,
      usedAt: typeof usedAt === 'number' ? usedAt : 0,
    };
  },
};
