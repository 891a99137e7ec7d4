import { Course } from '../../link/course.ts';
import { checkArgument, FUNCTION } from '../../options.ts';
import type { SessionMeta } from '../../wire/index.ts';
import { SessionConflictError, SessionGoneError, sessionErrorIn } from './errors.ts';
import type { SessionRecord } from './record.ts';
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

const running = new Course<Running>();

/** Returns the run that the current code belongs to. Returns undefined outside of every session. */
export function currentRun(): Running | undefined {
  return running.current;
}

/** Runs calls one at a time. A call that nobody waits for any longer does not hold up the others. */
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
