import { Course } from '../../link/course.ts';
import { checkArgument, FUNCTION } from '../../options.ts';
import type { SessionMeta } from '../../wire/index.ts';
import type { Call } from '../call.ts';
import { SessionConflictError, SessionGoneError, sessionErrorIn } from './errors.ts';
import type { Home } from './home.ts';
import type { Kept } from './kept.ts';
import { Queue } from './queue.ts';
import type {
  ClientSession,
  CreateOptions,
  Listening,
  ListenOptions,
  NotificationListener,
  SessionBehaviour,
} from './types.ts';

/** A part of the program that runs in a session. */
export interface Running {
  readonly session: HeldSession;
  /** The calls it has sent, if the session is serial. */
  readonly calls: Set<Call>;
}

const running = new Course<Running>();

/** Returns the run that the current code belongs to. Returns undefined outside of every session. */
export function currentRun(): Running | undefined {
  return running.current;
}

/** A session of this client, with the latest metadata from the server. */
export class HeldSession implements ClientSession {
  readonly home: Home;
  readonly label: string | undefined;
  readonly keeps: boolean;
  readonly recreates: boolean;
  readonly queue: Queue | undefined;
  /** Whether a tool that allocates expensive resources was called in the session. */
  allocates = false;
  /** The ids of rounds that wait in the session for an answer. */
  readonly waiting = new Set<string>();
  #meta: SessionMeta;
  #gone = false;
  /** The number of the call whose response brought the current state. */
  #stateOf = 0;
  #calls = 0;
  readonly #ids: Set<string>;

  constructor(
    home: Home,
    meta: SessionMeta,
    { label, keep, ordering, onGone }: CreateOptions & SessionBehaviour,
  ) {
    this.home = home;
    this.label = label;
    this.keeps = (keep ?? label !== undefined) && home.keeps;
    this.recreates = onGone === 'recreate';
    this.queue = ordering === 'serial' ? new Queue() : undefined;
    this.#meta = meta;
    this.#ids = new Set([meta.sessionId]);
  }

  get id(): string {
    return this.#meta.sessionId;
  }

  get expiresAt(): Date | undefined {
    return this.#meta.expiresAt === undefined ? undefined : new Date(this.#meta.expiresAt);
  }

  get isStale(): boolean {
    return (this.expiresAt?.getTime() ?? Number.POSITIVE_INFINITY) <= Date.now();
  }

  get isGone(): boolean {
    return this.#gone;
  }

  run<Value>(work: () => Value): Value {
    checkArgument('session.run()', work, FUNCTION);
    const run: Running = { session: this, calls: new Set() };
    try {
      const value = running.run(run, work);
      return isThenable(value) ? (this.#settled(run, value) as Value) : value;
    } catch (error) {
      throw this.#typed(error);
    }
  }

  async delete(): Promise<void> {
    await this.home.delete(this);
  }

  fork(options: CreateOptions = {}): Promise<ClientSession> {
    return this.home.fork(this, options);
  }

  async listen(listener: NotificationListener, options?: ListenOptions): Promise<Listening> {
    this.home.check(this);
    return this.home.streams.open(this, listener, options);
  }

  /** Returns the session metadata that a request carries. */
  sent(): SessionMeta {
    const { sessionId, state } = this.#meta;
    return state === undefined ? { sessionId } : { sessionId, state };
  }

  /** Returns a number for a call, in the order in which calls are sent. */
  nextCall(): number {
    return ++this.#calls;
  }

  /**
   * Applies the metadata of a response and returns whether anything changed. A response older than the current state does
   * not replace it. Age is compared by the sequence number if the server sends one, or else by the order of the calls.
   */
  update({ state, seq, expiresAt }: SessionMeta, call: number): boolean {
    const meta = this.#meta;
    const isNew = state !== undefined && !this.#isOlder(seq, call);
    const next: SessionMeta = {
      sessionId: meta.sessionId,
      ...spread('state', isNew ? state : meta.state),
      ...spread('seq', isNew ? seq : meta.seq),
      ...spread('expiresAt', expiresAt ?? meta.expiresAt),
    };
    const changed = next.state !== meta.state || next.expiresAt !== meta.expiresAt;
    if (isNew) this.#stateOf = call;
    this.#meta = next;
    return changed;
  }

  #isOlder(seq: number | undefined, call: number): boolean {
    const { seq: held } = this.#meta;
    return seq !== undefined && held !== undefined ? seq < held : call < this.#stateOf;
  }

  /** Adopts the later state that another process has stored. */
  adopt({ state, seq, expiresAt }: Kept): void {
    this.#meta = {
      sessionId: this.id,
      ...spread('state', state),
      ...spread('seq', seq),
      ...spread('expiresAt', expiresAt),
    };
  }

  /** Replaces this session with another one. */
  replace(meta: SessionMeta): void {
    this.#meta = meta;
    this.#ids.add(meta.sessionId);
    this.#stateOf = this.#calls;
    this.#gone = false;
  }

  end(): void {
    this.#gone = true;
  }

  /** Returns the session record to store. */
  toKeep(): Kept {
    const { sessionId, state, seq, expiresAt } = this.#meta;
    return {
      target: this.home.target,
      account: this.home.account.name,
      id: sessionId,
      label: this.label,
      state,
      seq,
      expiresAt,
      usedAt: Date.now(),
    };
  }

  async #settled(run: Running, value: PromiseLike<unknown>): Promise<unknown> {
    try {
      return await value;
    } catch (error) {
      throw this.#typed(error);
    } finally {
      // Nobody waits for the calls that are still in progress.
      for (const call of run.calls) this.queue?.leave(call);
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

function spread<Key extends string, Value>(
  key: Key,
  value: Value | undefined,
): { readonly [K in Key]?: Value } {
  return (value === undefined ? {} : { [key]: value }) as { readonly [K in Key]?: Value };
}
