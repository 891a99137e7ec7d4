import { AsyncVariable } from '../../core/async-context.ts';
import type { ValiseError } from '../../core/errors.ts';
import { checkArgument, FUNCTION } from '../../core/options.ts';
import { sha256 } from '../../core/sha256.ts';
import { type Collection, collection, type Schema } from '../../store/kit/collection.ts';
import { withLease } from '../../store/kit/lease.ts';
import type { Store } from '../../store/types.ts';
import { isSessionId, type SessionMeta } from '../../wire/index.ts';
import type { Account } from '../identity/account.ts';
import { SessionConflictError, SessionGoneError, sessionErrorIn } from './errors.ts';
import type { ServerSessions } from './server-sessions.ts';
import type {
  ClientSession,
  CreateOptions,
  Listening,
  ListenOptions,
  NotificationListener,
} from './types.ts';

/** A part of the program that runs in a session. */
export interface Running {
  readonly session: OpenSession;
  /** Aborted when it has ended, so that nobody waits for the calls that are still in progress. */
  readonly over: AbortController;
}

/** The run that the current code belongs to. Undefined outside of every session. */
export const running = new AsyncVariable<Running>();

/** Runs calls one at a time. A call that nobody waits for any longer does not delay the others. */
class Queue {
  #last: Promise<void> = Promise.resolve();

  /** Runs `work` when the earlier calls have ended, or have left because one of their signals was aborted. */
  async run<Value>(work: () => Promise<Value>, signals: readonly AbortSignal[]): Promise<Value> {
    const before = this.#last;
    let leave = (): void => {};
    const left = new Promise<void>((resolve) => {
      leave = resolve;
    });
    this.#last = before.then(() => left);
    for (const signal of signals) {
      if (signal.aborted) leave();
      else signal.addEventListener('abort', leave, { once: true });
    }
    try {
      await before;
      return await work();
    } finally {
      leave();
      for (const signal of signals) signal.removeEventListener('abort', leave);
    }
  }
}

/** A session that this client uses, with the latest metadata from the server. */
export class OpenSession implements ClientSession {
  readonly sessions: ServerSessions;
  /** Whether the session is stored. */
  readonly isStored: boolean;
  readonly recreates: boolean;
  /** Runs the calls of a serial session one at a time. */
  readonly queue: Queue | undefined;
  /** Whether a tool that allocates expensive resources was called in the session. */
  allocates = false;
  /** The ids of pending questions whose calls were made in the session. */
  readonly pending = new Set<string>();
  #record: SessionRecord;
  #gone = false;
  /** The number of the call whose response brought the current state. */
  #stateOf = 0;
  #calls = 0;
  readonly #ids: Set<string>;

  constructor(
    sessions: ServerSessions,
    record: SessionRecord,
    { keep, ordering, onGone }: Omit<CreateOptions, 'label'>,
  ) {
    this.sessions = sessions;
    this.isStored = (keep ?? record.label !== undefined) && sessions.mayStore;
    this.recreates = onGone === 'recreate';
    this.queue = ordering === 'serial' ? new Queue() : undefined;
    this.#record = record;
    this.#ids = new Set([record.id]);
  }

  get id(): string {
    return this.#record.id;
  }

  get label(): string | undefined {
    return this.#record.label;
  }

  get expiresAt(): Date | undefined {
    return this.#record.expiresAt === undefined ? undefined : new Date(this.#record.expiresAt);
  }

  get isStale(): boolean {
    return (this.expiresAt?.getTime() ?? Number.POSITIVE_INFINITY) <= Date.now();
  }

  get isGone(): boolean {
    return this.#gone;
  }

  run<Value>(work: () => Value): Value {
    checkArgument('session.run()', work, FUNCTION);
    const run: Running = { session: this, over: new AbortController() };
    try {
      const value = running.run(run, work);
      return isThenable(value) ? (this.#settled(run, value) as Value) : value;
    } catch (error) {
      throw this.#typed(error);
    }
  }

  async delete(): Promise<void> {
    await this.sessions.delete(this);
  }

  fork(options: CreateOptions = {}): Promise<ClientSession> {
    return this.sessions.fork(this, options);
  }

  async listen(listener: NotificationListener, options?: ListenOptions): Promise<Listening> {
    this.check();
    return this.sessions.streams.open(this, listener, options);
  }

  /** Throws if the session is gone, because it must never be sent again. */
  check(hasBegun = false): void {
    if (this.#gone) throw new SessionGoneError(this.id, this.label, undefined, hasBegun);
  }

  /** The session record, to store it now. */
  get record(): SessionRecord {
    return { ...this.#record, account: this.sessions.account.name, usedAt: Date.now() };
  }

  /** Returns the session metadata that a request carries. */
  sent(): SessionMeta {
    return sentOf(this.#record);
  }

  /** Returns a number for a call, in the order in which calls are sent. */
  nextCall(): number {
    return ++this.#calls;
  }

  /**
   * Applies the metadata of a response and returns whether anything changed. A response older than the current state does
   * not replace it. Age is compared by the sequence number if the server sends one, or else by the order of the calls.
   */
  update({ state, seq, expiresAt = this.#record.expiresAt }: SessionMeta, call: number): boolean {
    const before = this.#record;
    const isOlder = seq !== undefined && before.seq !== undefined ? seq < before.seq : call < this.#stateOf;
    const isNew = state !== undefined && !isOlder;
    if (isNew) this.#stateOf = call;
    this.#record = { ...before, expiresAt, ...(isNew && { state, seq }) };
    return this.#record.state !== before.state || expiresAt !== before.expiresAt;
  }

  /** Adopts the later state that another process has stored. */
  adopt({ state, seq, expiresAt }: SessionRecord): void {
    this.#record = { ...this.#record, state, seq, expiresAt };
  }

  /** Replaces this session with another one. */
  replace(record: SessionRecord): void {
    this.#record = record;
    this.#ids.add(record.id);
    this.#stateOf = this.#calls;
    this.#gone = false;
  }

  end(): void {
    this.#gone = true;
  }

  async #settled(run: Running, value: PromiseLike<unknown>): Promise<unknown> {
    try {
      return await value;
    } catch (error) {
      throw this.#typed(error);
    } finally {
      run.over.abort();
    }
  }

  #typed(error: unknown): unknown {
    if (error instanceof SessionGoneError) return error;
    const reading = sessionErrorIn(error);
    if (reading?.kind === 'conflict') return new SessionConflictError(error);
    if (reading?.kind !== 'not-found') return error;
    const { sessionId = this.id } = reading;
    return this.#ids.has(sessionId) ? new SessionGoneError(sessionId, this.label, error) : error;
  }
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof value === 'object' && value !== null && 'then' in value && typeof value.then === 'function';
}

/** Returns the session metadata that a request carries. */
export function sentOf({ id, state }: SessionRecord): SessionMeta {
  return state === undefined ? { sessionId: id } : { sessionId: id, state };
}

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
