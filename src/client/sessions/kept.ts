import { isObject, type Json } from '../../json.ts';
import { sha256 } from '../../sha256.ts';
import { entryPages } from '../../store/page.ts';
import type { Store } from '../../store/types.ts';
import { isSessionId, type SessionMeta } from '../../wire/index.ts';
import type { Account } from '../account.ts';
import { underLease } from '../continuity/lease.ts';

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

const FORMAT = 1;
/** A session that nobody used for this long is forgotten, in seconds. */
const TTL = 90 * 86_400;
const MAX_SESSIONS = 10_000;

/** The sessions of one principal in the store, apart for each server: a session goes to no other. */
export class KeptSessions {
  readonly #store: Store;
  readonly #prefix: string;

  constructor(store: Store, principal: string) {
    this.#store = store;
    this.#prefix = `kept-sessions/${sha256(principal)}/`;
  }

  async get(target: string, id: string, account: Account): Promise<Kept | undefined> {
    const kept = readKept((await this.#store.get(this.#key(target, id)))?.value, target);
    return kept && account.owns(kept.account) ? kept : undefined;
  }

  /** Those of one server, or of all, of one account or of every one; the one used last comes first. */
  async list(target?: string, account?: Account): Promise<readonly Kept[]> {
    const found: Kept[] = [];
    const prefix = target === undefined ? this.#prefix : this.#folder(target);
    for await (const page of entryPages(this.#store, prefix)) {
      for (const [, { value }] of page) {
        const kept = readKept(value, target);
        if (kept && (!account || account.owns(kept.account))) found.push(kept);
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
    const key = this.#key(kept.target, kept.id);
    for (;;) {
      const entry = await this.#store.get(key);
      const found = readKept(entry?.value, kept.target);
      const other = found?.account === kept.account ? found : undefined;
      if (other?.seq !== undefined && kept.seq !== undefined && other.seq > kept.seq) return other;
      const condition = entry ? { ifVersion: entry.version } : { ifAbsent: true };
      if ((await this.#store.put(key, storableKept(kept), { ttl: TTL, ...condition })) !== undefined)
        return undefined;
    }
  }

  async remove(target: string, id: string): Promise<boolean> {
    return this.#store.delete(this.#key(target, id));
  }

  /** Runs `work` while no other process does so for the same label. */
  alone<Value>(target: string, label: string, work: () => Promise<Value>): Promise<Value> {
    const key = `lock/${this.#folder(target)}${sha256(label)}`;
    return underLease(this.#store, key, work, async () => undefined);
  }

  #folder(target: string): string {
    return `${this.#prefix}${sha256(target)}/`;
  }

  #key(target: string, id: string): string {
    return `${this.#folder(target)}${sha256(id)}`;
  }
}

/** A session as it is stored. */
export function storableKept(kept: Kept): Json {
  return { format: FORMAT, ...JSON.parse(JSON.stringify(kept)) } as Json;
}

/** Reads an entry. A store is a file that others can write: what is not for this server is not there. */
export function readKept(value: unknown, target: string | undefined): Kept | undefined {
  if (!isObject(value) || value['format'] !== FORMAT) return undefined;
  const { target: from, account, id, label, state, seq, expiresAt, usedAt } = value;
  if (typeof from !== 'string' || (target !== undefined && from !== target) || !isSessionId(id))
    return undefined;
  return {
    target: from,
    account: typeof account === 'string' ? account : '',
    id,
    label: typeof label === 'string' ? label : undefined,
    state: typeof state === 'string' ? state : undefined,
    seq: Number.isSafeInteger(seq) ? (seq as number) : undefined,
    expiresAt: typeof expiresAt === 'string' ? expiresAt : undefined,
    usedAt: typeof usedAt === 'number' ? usedAt : 0,
  };
}

/** What a request says about a kept session. */
export function metaOf({ id, state, seq, expiresAt }: Kept): SessionMeta {
  return {
    sessionId: id,
    ...(state !== undefined && { state }),
    ...(seq !== undefined && { seq }),
    ...(expiresAt !== undefined && { expiresAt }),
  };
}
