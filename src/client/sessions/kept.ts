import type { ValiseError } from '../../errors.ts';
import { sha256 } from '../../sha256.ts';
import { type Collection, collection, type Schema } from '../../store/kit/collection.ts';
import { withLease } from '../../store/kit/lease.ts';
import type { Store } from '../../store/types.ts';
import { isSessionId, type SessionMeta } from '../../wire/index.ts';
import type { Account } from '../account.ts';

/** A session as the store holds it. */
export interface Kept {
  readonly target: string;
  /** The account that it belongs to; see `Account`. */
  readonly account: string;
  readonly id: string;
  readonly label: string | undefined;
  readonly state: string | undefined;
  readonly seq: number | undefined;
  readonly expiresAt: string | undefined;
  /** Milliseconds since 1970. */
  readonly usedAt: number;
}

/** A session that nobody used for this long is forgotten, in seconds. */
const TTL = 90 * 86_400;
const MAX_SESSIONS = 10_000;

/** The sessions of one principal in the store, apart for each server: a session goes to no other. */
export class KeptSessions {
  readonly #store: Store;
  readonly #prefix: string;
  readonly #records: Collection<Kept>;
  readonly #newer: (error: ValiseError) => void;

  /** `newer` hears of sessions that a later release has kept, and that are left alone. */
  constructor(store: Store, principal: string, newer: (error: ValiseError) => void) {
    this.#store = store;
    this.#prefix = `kept-sessions/${sha256(principal)}/`;
    this.#records = collection(store, '', KEPT);
    this.#newer = newer;
  }

  async get(target: string, id: string, account: Account): Promise<Kept | undefined> {
    const kept = (await this.#records.get(this.#key(target, id)))?.value;
    return kept?.target === target && account.owns(kept.account) ? kept : undefined;
  }

  /** Those of one server, or of all, of one account or of every one; the one used last comes first. */
  async list(target?: string, account?: Account): Promise<readonly Kept[]> {
    const found: Kept[] = [];
    const prefix = target === undefined ? this.#prefix : this.#folder(target);
    for await (const page of this.#records.pages(prefix, this.#newer)) {
      for (const [, { value: kept }] of page) {
        if (!kept || (target !== undefined && kept.target !== target)) continue;
        if (!account || account.owns(kept.account)) found.push(kept);
      }
      if (found.length >= MAX_SESSIONS) break;
    }
    return found.sort((a, b) => b.usedAt - a.usedAt);
  }

  /**
   * Keeps what came with an answer. Where another process has kept a later state in the meantime, that one stays, and
   * comes back.
   */
  async save(kept: Kept): Promise<Kept | undefined> {
    let later: Kept | undefined;
    await this.#records.update(
      this.#key(kept.target, kept.id),
      (found) => {
        const now = found?.value;
        const isOurs = now?.target === kept.target && now.account === kept.account;
        const isLater = now?.seq !== undefined && kept.seq !== undefined && now.seq > kept.seq;
        later = isOurs && isLater ? now : undefined;
        return later ? undefined : kept;
      },
      { ttl: TTL },
    );
    return later;
  }

  async remove(target: string, id: string): Promise<boolean> {
    return this.#store.delete(this.#key(target, id));
  }

  /** Runs `work` while no other process does so for the same label. */
  alone<Value>(target: string, label: string, work: () => Promise<Value>): Promise<Value> {
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

/** How kept sessions are stored. A store is a file that others can write: what is not a session is not there. */
export const KEPT: Schema<Kept> = {
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

/** What a request says about a kept session. */
export function metaOf({ id, state, seq, expiresAt }: Kept): SessionMeta {
  return {
    sessionId: id,
    ...(state !== undefined && { state }),
    ...(seq !== undefined && { seq }),
    ...(expiresAt !== undefined && { expiresAt }),
  };
}
