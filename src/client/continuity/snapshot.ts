import { isObject } from '../../json.ts';
import {
  type Collection,
  collection,
  type Found,
  isNewer,
  type Members,
  type Schema,
} from '../../store/kit/collection.ts';
import type { Store } from '../../store/types.ts';
import { type Era, isSessionId, type Result } from '../../wire/index.ts';
import type { Account } from '../account.ts';
import { holdKey } from './hold.ts';
import { keyOf, type Whose } from './whose.ts';

/** What a client keeps of a connection, so that its next process can go on where this one was. */
export interface Snapshot {
  readonly era: Era;
  /** The `initialize` or `server/discover` result as it came: version, capabilities, server info, instructions. */
  readonly introduction: Result;
  readonly protocolVersion: string;
  /** What Valise told the server in `initialize` that this client can do; absent where it was not recorded. */
  readonly announced?: string;
  /** What the server may ask of the client, as `initialize` told it; absent where it was not recorded. */
  readonly askable?: string;
  /** The account that it was made for; see `Account`. Absent if a host has filled it in: then it is anybody's. */
  readonly account?: string;
  /** The transport's session, where the server gave one. */
  readonly sessionId?: string;
  /** Where the standalone stream of that session stands. */
  readonly lastEventId?: string;
  /** When the server introduced itself, in milliseconds since 1970. */
  readonly savedAt: number;
}

const MAX_BYTES = 1024 * 1024;
const DAY = 24 * 60 * 60 * 1000;

/** Why {@link SnapshotKeeper.save} has kept nothing. */
export const TOO_LARGE = 'the server says more than 1 MiB of itself.';
export const NOT_KEPT =
  'another process has begun one first, or goes on in one as a client that can be asked other things.';

/** How snapshots are stored; {@link readSnapshot} checks what is in one. */
export const SNAPSHOTS: Schema<Members> = { kind: 'connection record', version: 1, read: (record) => record };

/** Keeps one snapshot per target, principal and era. It is one entry, so it is replaced in one step. */
export class SnapshotKeeper {
  readonly #store: Store;
  readonly #records: Collection<Members>;
  readonly #whose: Whose;
  readonly #key: string;
  readonly #account: Account | undefined;
  readonly #seen = new Map<Era, Snapshot>();

  /** Without an account, that of every one is read. */
  constructor(store: Store, whose: Whose, account?: Account) {
    this.#store = store;
    this.#records = collection(store, '', SNAPSHOTS);
    this.#account = account;
    this.#whose = whose;
    this.#key = keyOf('connection', whose);
  }

  /** What is kept; undefined also if it is damaged or of a later release, which costs one `initialize` and nothing else. */
  async load(era: Era): Promise<Snapshot | undefined> {
    const found = await this.#records.get(this.#at(era)).catch(unlessNewer);
    const { snapshot } = this.#read(era, found);
    if (snapshot) this.#seen.set(era, snapshot);
    else this.#seen.delete(era);
    return snapshot;
  }

  /** What was kept when it was last loaded. */
  seen(era: Era): Snapshot | undefined {
    return this.#seen.get(era);
  }

  /** The latest of what is kept in these eras. */
  async latest(eras: readonly Era[]): Promise<Snapshot | undefined> {
    const kept = await Promise.all(eras.map((era) => this.load(era)));
    return kept.reduce((best, one) => (one && (!best || one.savedAt > best.savedAt) ? one : best), undefined);
  }

  /**
   * Keeps a snapshot in place of the one before, and says whether it did: what is too big for its purpose is not kept, nor
   * what would take the place of a session that another process has begun since this one looked, or that a client goes on
   * in of which other things can be asked.
   */
  async save(snapshot: Snapshot): Promise<boolean | 'too-large'> {
    const { era } = snapshot;
    const value = { ...this.#whose, ...snapshot, ...this.#own };
    const fits = Buffer.byteLength(JSON.stringify(value)) <= MAX_BYTES;
    let isOurs = false;
    const version = await this.#records.update(this.#at(era), (found) => {
      const { snapshot: now } = this.#read(era, found);
      const isOthers = now?.sessionId !== this.#seen.get(era)?.sessionId || now?.askable !== snapshot.askable;
      isOurs = now?.sessionId === undefined || !isOthers;
      if (!isOurs) return undefined;
      return fits ? value : null;
    });
    if (isOurs && !fits) return 'too-large';
    if (typeof version !== 'string') return false;
    this.#seen.set(era, snapshot);
    return true;
  }

  /** Changes what is kept, unless another process has replaced that session in between. */
  async update(snapshot: Snapshot, change: Partial<Snapshot>): Promise<void> {
    const { era } = snapshot;
    await this.#records.update(this.#at(era), (found) => {
      const { snapshot: kept } = this.#read(era, found);
      if (!kept || !isSame(kept, snapshot)) return undefined;
      return { ...this.#whose, ...kept, ...change, ...this.#own };
    });
  }

  /** Forgets a session that is over; one that another process has begun since stays. */
  async clear(gone: Snapshot): Promise<void> {
    await this.#records.update(this.#at(gone.era), (found) => {
      const { snapshot: kept, isOthers } = this.#read(gone.era, found);
      return found && !isOthers && (!kept || isSame(kept, gone)) ? null : undefined;
    });
  }

  /** Forgets everything; true if there was something. */
  async forget(): Promise<boolean> {
    const gone = await Promise.all(
      (['legacy', 'modern'] as const).map((era) => this.#store.delete(this.#at(era))),
    );
    // Who is still in the session that was kept does not stand in the way of the next one.
    await this.#store.delete(holdKey(this.#key));
    return gone.includes(true);
  }

  /** The user has signed in during the connection: what is kept of it is that account's from now on. */
  async claim(): Promise<void> {
    await Promise.all([...this.#seen.values()].map((snapshot) => this.update(snapshot, {})));
  }

  get #own(): Pick<Snapshot, 'account'> {
    return this.#account ? { account: this.#account.name } : {};
  }

  #at(era: Era): string {
    return `${this.#key}/${era}`;
  }

  #read(
    era: Era,
    found: Found<Members> | undefined,
  ): { readonly snapshot?: Snapshot | undefined; readonly isOthers?: true } {
    const snapshot = readSnapshot(found?.value);
    if (snapshot?.account !== undefined && this.#account?.owns(snapshot.account) === false)
      return { isOthers: true };
    return { snapshot: snapshot?.era === era ? snapshot : undefined };
  }
}

/** A record of a later release is none to go on with; whoever is to replace it hears of it. */
function unlessNewer(error: unknown): undefined {
  if (!isNewer(error)) throw error;
}

/** Whether two snapshots are of one session. */
export function isSame(one: Snapshot, other: Snapshot): boolean {
  return one.sessionId === other.sessionId && one.savedAt === other.savedAt;
}

/** True for what no session keeps up to date: it costs one round trip to ask again, and no state. */
export function isStale({ sessionId, savedAt }: Snapshot): boolean {
  return sessionId === undefined && Date.now() - savedAt > DAY;
}

/** A snapshot as it comes from a store; undefined where it is none. */
export function readSnapshot(value: unknown): Snapshot | undefined {
  if (!isObject(value)) return undefined;
  const {
    era,
    introduction,
    protocolVersion,
    announced,
    askable,
    account,
    sessionId,
    lastEventId,
    savedAt,
    over,
  } = value;
  if ((era !== 'legacy' && era !== 'modern') || !isObject(introduction)) return undefined;
  // A session that was taken out from under what the server said: nothing to go on in.
  if (typeof protocolVersion !== 'string' || over === true) return undefined;
  return {
    era,
    introduction: introduction as Result,
    protocolVersion,
    savedAt: typeof savedAt === 'number' ? savedAt : 0,
    ...(typeof announced === 'string' && { announced }),
    ...(typeof askable === 'string' && { askable }),
    ...(typeof account === 'string' && { account }),
    ...(isSessionId(sessionId) && { sessionId }),
    ...(typeof lastEventId === 'string' && { lastEventId }),
  };
}
