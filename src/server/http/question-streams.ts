import { isObject } from '../../json.ts';
import { sha256 } from '../../sha256.ts';
import { type Id, INTERNAL_ERROR, type Message, outcomeIn, type RpcError } from '../../wire/index.ts';
import type { Asking } from '../edge-context.ts';
import { notDone } from '../fault.ts';
import { callerIn, principalDigest, type RoundContext } from '../flows/context.ts';
import { FlowError } from '../flows/errors.ts';
import { full } from '../flows/records.ts';
import type { Rounds } from '../flows/rounds.ts';
import { isUnknownKey } from '../own-keys.ts';
import type { Principal } from '../principal.ts';
import { type Mail, Mailbox } from './mailbox.ts';
import type { EventStream } from './sse.ts';
import { messagesIn } from './sse.ts';

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

/** How much longer than its round a stream may live, in seconds, since clocks differ. */
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

/** Asks clients over HTTP in place of a call's answer, and delivers the outcome of their answers. */
export class QuestionStreams {
  readonly #rounds: Rounds;
  readonly #mailbox: Mailbox;
  /** When this instance started, in seconds since 1970. */
  readonly #since = Math.floor(Date.now() / 1000);
  /** Whether any client has sent a GET. */
  sawGet = false;

  constructor(rounds: Rounds) {
    this.#rounds = rounds;
    this.#mailbox = new Mailbox(rounds.records);
  }

  /** Sends a question and, for clients that answer by id, the outcome of the answer. `resumes`: see {@link hold}. */
  async ask(
    { message, context, byId, before = [] }: Asking,
    stream: EventStream,
    resumes: boolean,
  ): Promise<void> {
    const text = JSON.stringify(message);
    for (const earlier of before) stream.event(earlier);
    if (!byId) {
      stream.event(text);
      stream.end();
      return;
    }
    if (!this.#rounds.context.store) this.#warn();
    const leave = this.#enter(context);
    try {
      if (!leave) throw full();
      await this.#note(context, message).catch(notDone);
    } catch (error) {
      // The outcome of an answer could not be delivered either.
      const failed = { jsonrpc: '2.0', id: context.o?.i, error: this.#rounds.fault(error) };
      stream.event(JSON.stringify(failed));
      stream.end();
      leave?.();
      return;
    }
    const place = placeOf(context);
    stream.event(text, this.#eventId(place, context.n));
    await this.#hold(place, context.n, stream, resumes).finally(leave);
  }

  /**
   * Whether another instance asked the question of a round, so that the outcome of its answer would not reach the client here.
   *
   * A question from before this instance started may come from the process that it has replaced.
   */
  async isElsewhere({ f, n, t }: Pick<RoundContext, 'f' | 'n' | 't'>): Promise<boolean> {
    if (this.#rounds.context.store || t <= this.#since) return false;
    if ((await this.#rounds.records.get(askedName(f, n))) !== undefined) return false;
    this.#rounds.context.warnOnce('asked-elsewhere', {
      what: 'A question was asked by one instance, and its client came to another with the answer. They share no store, so the call has failed.',
      next: 'Give createValise a store that all instances share, or route each transport session to one instance.',
    });
    return true;
  }

  /** Counts a stream that is held open for a caller. Returns undefined if that exceeds the limit. */
  #enter(place: Pick<RoundContext, 'f' | 'u' | 's'>): (() => void) | undefined {
    const { held, context } = this.#rounds;
    const taken = held.take(callerIn(place));
    if (typeof taken === 'function') return taken;
    context.events.emit('rejected', { family: 'rounds', what: 'a stream', reason: `waiting-${taken}` });
    return undefined;
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
      stream.event('', event);
      if (await this.isElsewhere({ ...place, t: place.t ?? 0 })) {
        stream.event(
          JSON.stringify({ jsonrpc: '2.0', id: place.i, error: ELSEWHERE }),
          this.#eventId(place, END),
        );
        stream.end();
        leave();
        return;
      }
      await this.#hold(place, place.n, stream, true).finally(leave);
    };
  }

  /** Stores the outcome of an answer: the SDK's response, or the next question. */
  async post(
    context: RoundContext,
    outcome: Asking | { readonly type: string; readonly body: string },
  ): Promise<void> {
    if ('message' in outcome) await this.#note(outcome.context, outcome.message);
    const mail: Mail =
      'message' in outcome
        ? { messages: [...(outcome.before ?? []), JSON.stringify(outcome.message)], next: outcome.context.n }
        : { messages: messagesIn(outcome.type, outcome.body) };
    // The client disconnected, and the SDK wrote nothing. The same answer sent again gets the outcome.
    if (mail.messages.length === 0) return;
    const end = 'message' in outcome ? outcome.context.e : context.e;
    const life = { ttl: left(end), caller: callerIn(context) };
    try {
      await this.#mailbox.put(
        context.f,
        context.n,
        isUndoneMail(mail) ? { ...mail, undone: true } : mail,
        life,
      );
    } catch (error) {
      if (!(error instanceof FlowError) || error.code !== 'too-large') throw error;
      const told = {
        code: INTERNAL_ERROR,
        message: `Internal error: the result is too large to be kept until it is fetched (at most ${this.#rounds.records.most} bytes).`,
      };
      const message = JSON.stringify({ jsonrpc: '2.0', id: context.o?.i, error: told });
      await this.#mailbox.put(context.f, context.n, { messages: [message] }, life);
    }
  }

  /** Withdraws the question of a cancelled call. The client is notified wherever it waits for its messages. */
  async cancel(transportSession: string, call: unknown): Promise<void> {
    const open = (await this.#rounds.records.get(openName(transportSession, call)))?.value;
    if (!isObject(open)) return;
    const { f, n, e, u, id } = open as unknown as Open;
    const params = { requestId: id, reason: 'The call was cancelled.' };
    const message = JSON.stringify({ jsonrpc: '2.0', method: 'notifications/cancelled', params });
    const caller = callerIn({ ...(u !== undefined && { u }), s: transportSession });
    await this.#mailbox.put(f, n, { messages: [message], cancelled: true }, { ttl: left(e), caller });
  }

  /** Whether the question of a round was withdrawn. */
  async isCancelled({ f, n }: RoundContext): Promise<boolean> {
    return (await this.#mailbox.find(f, n))?.cancelled === true;
  }

  /** Records which question of a call is pending, since its cancellation may reach any instance. */
  async #note({ f, n, e, s, u, o }: RoundContext, message: Message): Promise<void> {
    const caller = callerIn({ ...(u !== undefined && { u }), ...(s !== undefined && { s }) });
    if (!this.#rounds.context.store)
      await this.#rounds.records.put(askedName(f, n), {}, { ttl: left(e), caller });
    if (s === undefined || !o || !('id' in message) || message.id === undefined || message.id === null)
      return;
    const open: Open = { f, n, e, ...(u !== undefined && { u }), id: message.id };
    await this.#rounds.records.put(openName(s, o.i), open, { ttl: left(e), caller });
  }

  /**
   * Delivers the outcome of the answers, one round after the other.
   *
   * A client that can resume streams is disconnected after a while and comes back by itself, to any instance. Any other client
   * is kept waiting.
   */
  async #hold(context: Place, round: number, stream: EventStream, resumes: boolean): Promise<void> {
    let at = round;
    const hold = this.#rounds.context.store ? HOLD : HOLD_ALONE;
    let end = Date.now() + hold;
    while (
      !stream.gone.aborted &&
      (!resumes || Date.now() < end) &&
      Date.now() < (context.e + SLACK) * 1000
    ) {
      const mail = await this.#mailbox.wait(context.f, at, Math.min(SILENCE, hold), stream.gone);
      if (!mail) {
        stream.beat();
        continue;
      }
      const id = this.#eventId(context, mail.next ?? END);
      for (const message of mail.messages) stream.event(message, id);
      if (mail.next === undefined) return stream.end();
      at = mail.next;
      end = Date.now() + hold;
    }
    if (resumes && !this.sawGet) setTimeout(() => this.#warnOfNoGet(), UNTIL_BACK).unref();
    stream.end();
  }

  #warnOfNoGet(): void {
    if (this.sawGet) return;
    this.#rounds.context.warnOnce('no-get', {
      what: 'A client was asked, and was to come back with a GET for what comes of its answer. No GET request has reached valise.http() so far.',
      next: 'Route GET and DELETE to valise.http() besides POST.',
    });
  }

  #eventId({ f, u, s, e, t, i }: Place, n: number): string {
    const ttl = left(e) + 120;
    return this.#rounds.context.sealer.seal(
      {
        f,
        n,
        e,
        ...(u !== undefined && { u }),
        ...(s !== undefined && { s }),
        ...(t !== undefined && { t }),
        ...(i !== undefined && { i }),
      },
      { purpose: PURPOSE, ttl },
    );
  }

  #readEventId(
    event: string,
    principal: Principal | undefined,
  ): (Place & { readonly n: number }) | undefined {
    try {
      const place = this.#rounds.context.sealer.open(event, { purpose: PURPOSE }) as unknown as Place & {
        n: number;
      };
      if (place.u !== principalDigest(principal)) throw new Error('another principal');
      return place.n === END ? undefined : place;
    } catch (error) {
      if (isUnknownKey(error)) throw error;
      this.#rounds.refused('the place in a stream', error);
      return undefined;
    }
  }

  #warn(): void {
    this.#rounds.context.warnOnce('mailbox-in-memory', {
      what: 'A client without state of its own was asked, and there is no store: only this instance can go on with its call.',
      next: 'Give createValise a store that all instances share.',
    });
  }
}

/** A pending question. */
interface Open {
  readonly f: string;
  readonly n: number;
  readonly e: number;
  readonly u?: string;
  /** The id of the question itself. */
  readonly id: Id;
}

function openName(transportSession: string, call: unknown): string {
  return `rounds/open/${sha256(JSON.stringify([transportSession, call]))}`;
}

/** Whether the call had no effect, so that its answer may be sent again. */
function isUndoneMail({ messages, next }: Mail): boolean {
  const last = next === undefined ? messages.at(-1) : undefined;
  if (!last?.includes('"error"')) return false;
  const { error } = JSON.parse(last) as { readonly error?: { readonly data?: unknown } };
  return error !== undefined && outcomeIn(error) === 'not-done';
}

/** Returns how long records of a round that ends at `end` are kept, in seconds. */
function left(end: number): number {
  return Math.max(60, end - Math.floor(Date.now() / 1000));
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

function placeOf({ f, e, u, s, t, o }: RoundContext): Place {
  return { f, e, t, ...(u !== undefined && { u }), ...(s !== undefined && { s }), ...(o && { i: o.i }) };
}

function askedName(flow: string, round: number): string {
  return `rounds/asked/${flow}.${round}`;
}
