import { isObject } from '../../core/json.ts';
import { sha256 } from '../../core/sha256.ts';
import { type Id, INTERNAL_ERROR, type Message, outcomeIn, type RpcError } from '../../wire/index.ts';
import type { Asking } from '../edge-context.ts';
import { isAway, notDone } from '../fault.ts';
import { type Continuation, callerIn, principalDigest } from '../flows/continuation.ts';
import { FlowError } from '../flows/errors.ts';
import type { Flows } from '../flows/flows.ts';
import { type FlowRecords, full, type RecordOptions } from '../flows/records.ts';
import { isUnknownKey } from '../own-keys.ts';
import type { Principal } from '../principal.ts';
import type { EventStream } from './sse.ts';

/** How long a stream is held open for the next message before its client must fetch it, in milliseconds. */
const HOLD = 45_000;

/**
 * The same without a store, in milliseconds. A client that reconnects soon learns soon that other instances lack the message.
 */
const HOLD_ALONE = 5000;

/** How long a client has to come back before a warning says that none ever does, in milliseconds. */
const UNTIL_BACK = 10_000;

/** How long a stream may be silent, in milliseconds. It is shorter than the timeout of proxies. */
const SILENCE = 15_000;

/** How much longer than its round a stream or an outcome may live, in seconds, since clocks differ. */
const SLACK = 120;

const PURPOSE = 'round-event';

/** The error for a client whose answer or GET reached an instance that cannot know of its question. */
export const ELSEWHERE: RpcError = {
  code: INTERNAL_ERROR,
  message:
    'Internal error: the question was asked by another instance of the server, which shares no store with this one.',
};

/** The end of a flow's messages. Nothing comes after it. */
const END = -1;

/** The outcome of an answer: messages for the client, and the round that they ask, if any. */
interface Outcome {
  readonly messages: readonly Message[];
  /** The number of the round that the last message asks. Absent if that message is the call's response. */
  readonly next?: number;
  /** Whether the question was withdrawn because its call was cancelled. */
  readonly cancelled?: boolean;
  /** Whether the answer had no effect and may be sent again. The new outcome then replaces this one. */
  readonly undone?: boolean;
}

/** A pending question of a call, for a cancellation that may reach any instance. */
interface Pending {
  readonly f: string;
  readonly n: number;
  readonly e: number;
  readonly u?: string;
  /** The id of the question itself. */
  readonly id: Id;
}

/** A flow's position in its messages. */
interface Place {
  readonly f: string;
  readonly e: number;
  readonly u?: string;
  readonly s?: string;
  /** When the call began, and its id. */
  readonly t?: number;
  readonly i?: Id;
}

/**
 * Asks clients over HTTP in place of a call's response, and delivers the outcome of their answers.
 *
 * Clients that carry no state answer on one connection and listen on another, so the two may reach different instances. The
 * outcome of each round is therefore one small record, which ends with the round.
 */
export class Mailbox {
  readonly #flows: Flows;
  readonly #outcomes: Outcomes;
  /** When this instance started, in seconds since 1970. */
  readonly #since = Math.floor(Date.now() / 1000);
  /** Whether any client has sent a GET. */
  sawGet = false;

  constructor(flows: Flows) {
    this.#flows = flows;
    this.#outcomes = new Outcomes(flows.records);
  }

  /** Sends a question and, for clients that answer by id, the outcome of the answer. `resumes`: see {@link #hold}. */
  async ask(
    { message, continuation, byId, before = [] }: Asking,
    stream: EventStream,
    resumes: boolean,
  ): Promise<void> {
    for (const earlier of before) stream.event(earlier);
    if (!byId) {
      stream.event(message);
      stream.end();
      return;
    }
    if (!this.#flows.context.store) this.#warnOfMemory();
    const leave = this.#enter(continuation);
    try {
      if (!leave) throw full();
      await this.#record(continuation, message).catch(notDone);
    } catch (error) {
      // The outcome of an answer could not be delivered either.
      stream.event(failure(continuation.o?.i, this.#flows.fault(error)));
      stream.end();
      leave?.();
      return;
    }
    const place = placeOf(continuation);
    stream.event(message, this.#eventId(place, continuation.n));
    await this.#hold(place, continuation.n, stream, resumes).finally(leave);
  }

  /**
   * Returns the stream for a client that fetches its messages, or a status: 405 if there are none, 503 if there is no room now.
   */
  open(
    event: string,
    principal: Principal | undefined,
  ): ((stream: EventStream) => Promise<void>) | 405 | 503 {
    const place = this.#readEventId(event, principal);
    if (!place) return 405;
    const leave = this.#enter(place);
    if (!leave) return 503;
    return async (stream) => {
      // Repeats the client's position, so that it can reconnect if this stream breaks.
      stream.event(undefined, event);
      if (await this.isElsewhere({ ...place, t: place.t ?? 0 })) {
        stream.event(failure(place.i, ELSEWHERE), this.#eventId(place, END));
        stream.end();
        leave();
        return;
      }
      await this.#hold(place, place.n, stream, true).finally(leave);
    };
  }

  /** Stores the outcome of an answer: the messages up to the call's response, or the next question. */
  async post(continuation: Continuation, outcome: Asking | readonly Message[]): Promise<void> {
    const isAsking = 'message' in outcome;
    if (isAsking) await this.#record(outcome.continuation, outcome.message);
    const last = isAsking ? undefined : outcome.at(-1);
    const isUndone = last !== undefined && 'error' in last && outcomeIn(last.error) === 'not-done';
    const end = isAsking ? outcome.continuation.e : continuation.e;
    const life = { ttl: secondsUntil(end), caller: callerIn(continuation) };
    try {
      await this.#outcomes.put(
        continuation,
        isAsking
          ? { messages: [...(outcome.before ?? []), outcome.message], next: outcome.continuation.n }
          : { messages: outcome, ...(isUndone && { undone: true }) },
        life,
      );
    } catch (error) {
      if (!(error instanceof FlowError) || error.code !== 'too-large') throw error;
      const message = `Internal error: the result is too large to be kept until it is fetched (at most ${this.#flows.records.most} bytes).`;
      const failed = failure(continuation.o?.i, { code: INTERNAL_ERROR, message });
      await this.#outcomes.put(continuation, { messages: [failed] }, life);
    }
  }

  /** Withdraws the question of a cancelled call. The client is notified wherever it waits for its messages. */
  async cancel(transportSession: string, call: unknown): Promise<void> {
    const pending = (await this.#flows.records.get(pendingName(transportSession, call)))?.value;
    if (!isObject(pending)) return;
    const { f, n, e, u, id } = pending as unknown as Pending;
    const params = { requestId: id, reason: 'The call was cancelled.' };
    const message: Message = { jsonrpc: '2.0', method: 'notifications/cancelled', params };
    const caller = callerIn({ ...(u !== undefined && { u }), s: transportSession });
    const life = { ttl: secondsUntil(e), caller };
    await this.#outcomes.put({ f, n }, { messages: [message], cancelled: true }, life);
  }

  /** Whether the question of a round was withdrawn. */
  async isCancelled(round: Pick<Continuation, 'f' | 'n'>): Promise<boolean> {
    return (await this.#outcomes.find(round))?.cancelled === true;
  }

  /**
   * Whether another instance asked the question of a round, so that the outcome of its answer would not reach the client here.
   *
   * A question from before this instance started may come from the process that it has replaced.
   */
  async isElsewhere({ f, n, t }: Pick<Continuation, 'f' | 'n' | 't'>): Promise<boolean> {
    if (this.#flows.context.store || t <= this.#since) return false;
    if ((await this.#flows.records.get(askedName(f, n))) !== undefined) return false;
    this.#flows.context.warnOnce('asked-elsewhere', {
      what: 'A question was asked by one instance, and its client came to another with the answer. They share no store, so the call has failed.',
      next: 'Give createValise a store that all instances share, or route each transport session to one instance.',
    });
    return true;
  }

  /** Counts a stream that is held open for a caller. Returns undefined if that exceeds the limit. */
  #enter(place: Pick<Continuation, 'u' | 's'>): (() => void) | undefined {
    const { held, context } = this.#flows;
    const taken = held.take(callerIn(place));
    if (typeof taken === 'function') return taken;
    context.events.emit('rejected', { family: 'flows', what: 'a stream', reason: `waiting-${taken}` });
    return undefined;
  }

  /** Records which question of a call is pending, since its cancellation may reach any instance. */
  async #record(continuation: Continuation, message: Message): Promise<void> {
    const { f, n, e, s, u, o } = continuation;
    const life = { ttl: secondsUntil(e), caller: callerIn(continuation) };
    if (!this.#flows.context.store) await this.#flows.records.put(askedName(f, n), {}, life);
    if (s === undefined || !o || !('id' in message) || message.id === undefined || message.id === null)
      return;
    const pending: Pending = { f, n, e, ...(u !== undefined && { u }), id: message.id };
    await this.#flows.records.put(pendingName(s, o.i), pending, life);
  }

  /**
   * Delivers the outcome of the answers, one round after the other.
   *
   * A client that can resume streams is disconnected after a while and comes back by itself, to any instance. Any other client
   * is kept waiting.
   */
  async #hold(place: Place, round: number, stream: EventStream, resumes: boolean): Promise<void> {
    let n = round;
    const hold = this.#flows.context.store ? HOLD : HOLD_ALONE;
    let end = Date.now() + hold;
    while (!stream.gone.aborted && (!resumes || Date.now() < end) && Date.now() < (place.e + SLACK) * 1000) {
      const outcome = await this.#outcomes.wait({ f: place.f, n }, Math.min(SILENCE, hold), stream.gone);
      if (!outcome) {
        stream.beat();
        continue;
      }
      const id = this.#eventId(place, outcome.next ?? END);
      for (const message of outcome.messages) stream.event(message, id);
      if (outcome.next === undefined) return stream.end();
      n = outcome.next;
      end = Date.now() + hold;
    }
    if (resumes && !this.sawGet) setTimeout(() => this.#warnOfNoGet(), UNTIL_BACK).unref();
    stream.end();
  }

  #eventId(place: Place, n: number): string {
    return this.#flows.context.sealer.seal(
      { ...place, n },
      { purpose: PURPOSE, ttl: secondsUntil(place.e) + SLACK },
    );
  }

  #readEventId(
    event: string,
    principal: Principal | undefined,
  ): (Place & { readonly n: number }) | undefined {
    try {
      const { sealer } = this.#flows.context;
      const place = sealer.open(event, { purpose: PURPOSE }) as unknown as Place & { readonly n: number };
      if (place.u !== principalDigest(principal)) throw new Error('another principal');
      return place.n === END ? undefined : place;
    } catch (error) {
      if (isUnknownKey(error)) throw error;
      this.#flows.refused('the place in a stream', error);
      return undefined;
    }
  }

  #warnOfMemory(): void {
    this.#flows.context.warnOnce('mailbox-in-memory', {
      what: 'A client without state of its own was asked, and there is no store: only this instance can continue its call.',
      next: 'Give createValise a store that all instances share.',
    });
  }

  #warnOfNoGet(): void {
    if (this.sawGet) return;
    this.#flows.context.warnOnce('no-get', {
      what: 'A client was asked, and should fetch the outcome of its answer with a GET. No GET request has reached valise.http() so far.',
      next: 'Route GET and DELETE to valise.http() besides POST.',
    });
  }
}

/** Names a round. */
type RoundName = Pick<Continuation, 'f' | 'n'>;

/** The stored outcomes of answered rounds. */
class Outcomes {
  readonly #records: FlowRecords;
  readonly #waiters = new Map<string, Set<() => void>>();

  constructor(records: FlowRecords) {
    this.#records = records;
  }

  /** Stores the outcome of a round. The first outcome stays until it expires, whatever is sent later, unless it is undone. */
  async put(round: RoundName, outcome: Outcome, life: Pick<RecordOptions, 'ttl' | 'caller'>): Promise<void> {
    const name = outcomeName(round);
    const isPut = await this.#records.update(
      name,
      (found) => (found && found['undone'] !== true ? undefined : outcome),
      { ...life, ttl: life.ttl + SLACK },
    );
    if (!isPut) return;
    for (const wake of this.#waiters.get(name) ?? []) wake();
  }

  /** Returns the outcome of a round so far. */
  async find(round: RoundName): Promise<Outcome | undefined> {
    const found = (await this.#records.get(outcomeName(round)))?.value;
    return isObject(found) && Array.isArray(found['messages']) ? (found as unknown as Outcome) : undefined;
  }

  /**
   * Waits for the outcome, for up to `ms` milliseconds or until `signal`. It stays stored, since the client may fetch it again.
   */
  async wait(round: RoundName, ms: number, signal: AbortSignal): Promise<Outcome | undefined> {
    const end = performance.now() + ms;
    for (let pause = 50; !signal.aborted; pause = Math.min(pause * 1.5, 1000)) {
      const found = await this.find(round).catch(unlessAway);
      if (found) return found;
      const left = end - performance.now();
      if (left <= 0) return undefined;
      await this.#woken(outcomeName(round), Math.min(pause, left), signal);
    }
    return undefined;
  }

  /** Waits until this instance stores the outcome, or for `ms`. Outcomes from other instances are found by polling. */
  #woken(name: string, ms: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const waiters = this.#waiters.get(name) ?? new Set();
      this.#waiters.set(name, waiters);
      const wake = (): void => {
        clearTimeout(timer);
        signal.removeEventListener('abort', wake);
        waiters.delete(wake);
        if (waiters.size === 0) this.#waiters.delete(name);
        resolve();
      };
      const timer = setTimeout(wake, ms);
      signal.addEventListener('abort', wake, { once: true });
      waiters.add(wake);
    });
  }
}

/** Ignores an unavailable store, which must not end the wait: older clients fetch their messages only once. */
function unlessAway(error: unknown): undefined {
  if (!isAway(error)) throw error;
}

/** Returns how long records of a round that ends at `end` are kept, in seconds. */
function secondsUntil(end: number): number {
  return Math.max(60, end - Math.floor(Date.now() / 1000));
}

/** Returns the response to a call that has failed. A call without an id cannot be answered by it. */
function failure(id: Id | undefined, error: RpcError): Message {
  return { jsonrpc: '2.0', id: id as Id, error };
}

function placeOf({ f, e, u, s, t, o }: Continuation): Place {
  return { f, e, t, ...(u !== undefined && { u }), ...(s !== undefined && { s }), ...(o && { i: o.i }) };
}

function outcomeName({ f, n }: RoundName): string {
  return `rounds/mail/${f}.${n}`;
}

function pendingName(transportSession: string, call: unknown): string {
  return `rounds/open/${sha256(JSON.stringify([transportSession, call]))}`;
}

function askedName(flow: string, round: number): string {
  return `rounds/asked/${flow}.${round}`;
}
