import { messageOf } from '../../errors.ts';
import { currentHints } from '../../link/edge-fetch.ts';
import { raise } from '../../link/top.ts';
import { type Id, INPUT_METHODS, type Response as RpcResponse } from '../../wire/index.ts';
import { readQuestionId } from '../../wire/question-id.ts';
import type { Ask } from '../ask.ts';
import { Call } from '../call.ts';
import type { Connection } from '../connection.ts';
import { sessionsLacking } from '../sessions/errors.ts';
import { EXPIRED } from './driver.ts';
import type { Drives } from './drives.ts';
import { LEFT_OPEN, leftOpen } from './left-open.ts';
import { handOver, isOwn } from './own-call.ts';
import type { PendingStore } from './pending-store.ts';
import { goOnWith } from './replies.ts';
import { isExpired, type Round } from './round.ts';

/** A question that came with a state, until it is answered. */
interface OpenAsk {
  readonly ask: Ask;
  readonly call: Call | undefined;
  /** The id under which it is kept; undefined where it need not be. */
  readonly kept: Promise<string | undefined> | undefined;
  /** True where it is kept for itself, and over once it is answered; otherwise it is its call's, and over with it. */
  readonly isAlone: boolean;
  withdrawn: boolean;
}

/** Echoes the state that comes with a server's own request, to the letter, and keeps the question until then. */
export class Echo {
  readonly #pendingStore: PendingStore;
  readonly #drives: Drives;
  readonly #open = new Set<OpenAsk>();

  constructor(pendingStore: PendingStore, drives: Drives) {
    this.#pendingStore = pendingStore;
    this.#drives = drives;
  }

  /**
   * A request of the server has come. The client sees it once it is kept, so that no end of this process loses it; false
   * where nobody waits for its answer by then.
   */
  asked(ask: Ask): Promise<boolean> | undefined {
    const { connection } = ask;
    const call = callOf(ask);
    // Other calls may change the session while the client is asked.
    ask.whenAnswered((response) => this.#pendingStore.sessions.naming(connection, call?.session, response));
    const state = ask.top?.state;
    if (state === undefined) return undefined;
    if (call?.cancelled) return Promise.resolve(false);
    const round = roundOf(ask, state, call);
    if (call && isOwn(call) && connection.calls.get(call.wireId) === call) {
      void connection.arrive(handOver(call.wireId, round));
      return Promise.resolve(false);
    }
    if (call) call.movedOn = true;
    const open: OpenAsk = { ask, call, ...this.#keep(ask, call, round), withdrawn: false };
    this.#open.add(open);
    ask.whenAnswered((response) => this.#answered(open, response, state));
    ask.undelivered = (error) => {
      if (isExpired(error)) {
        void this.#expired(open);
        return;
      }
      const reason = messageOf(error);
      void this.#fail(open, -32_000, () => `The answer could not be delivered: ${reason}`);
    };
    if (connection.target.kind === 'http') {
      if (call) ask.retry = (error) => this.#retry(ask, call, error);
      ask.hints = {
        onReply: (reply) => void this.#reply(open, reply),
        onResponse: ({ ok }) => {
          if (ok && open.isAlone) this.#forget(open);
        },
      };
    }
    return open.kept?.then(() => this.#open.has(open));
  }

  /** The caller of a call does not want its answer any more. `keep`: it could not wait, and the question stays open. */
  cancelled(connection: Connection, requestId: Id, keep: boolean): void {
    for (const open of this.#open) {
      if (open.ask.connection !== connection || open.call?.request.id !== requestId) continue;
      open.withdrawn = true;
      this.#open.delete(open);
      connection.withdraw(open.ask);
      if (!keep && open.isAlone) this.#forget(open);
    }
  }

  /** The server has taken a question back. What belongs to a call is over with the call. */
  withdrawn(connection: Connection, requestId: unknown): void {
    for (const open of this.#open) {
      if (open.ask.connection !== connection || open.ask.request.id !== requestId) continue;
      this.#open.delete(open);
      if (open.isAlone) this.#forget(open);
    }
  }

  /** The server has answered a call: what else it asked in its course need not be answered later. */
  ended({ connection, request }: Call): void {
    for (const open of this.#open)
      if (open.isAlone && open.ask.connection === connection && open.call?.request.id === request.id)
        this.#forget(open);
  }

  /** True where the client of the connection is asked what is kept under this id. */
  async holds(connection: Connection, id: string): Promise<boolean> {
    for (const { ask, kept } of this.#open)
      if (ask.connection === connection && (await kept) === id) return true;
    return false;
  }

  /** The connection is gone; its questions are kept for the next one. */
  closed(connection: Connection): void {
    for (const open of this.#open) if (open.ask.connection === connection) this.#open.delete(open);
  }

  #keep(
    { connection, request: { method } }: Ask,
    call: Call | undefined,
    round: Round,
  ): Pick<OpenAsk, 'kept' | 'isAlone'> {
    const drive = call && this.#drives.of(call);
    // A `ping` is answered at once. Where its call is kept, it goes on from here.
    if (method === 'ping') return { kept: drive?.kept && drive.keep(round), isAlone: false };
    const isSecond = [...this.#open].some((other) => other.call && other.call === call && other.kept);
    if (drive && !isSecond) return { kept: drive.keep(round), isAlone: false };
    // Elsewhere than over HTTP nobody could go on with it.
    if (!call && connection.target.kind !== 'http') return { kept: undefined, isAlone: true };
    return {
      kept: this.#pendingStore.tryKeep(connection, call && this.#pendingStore.waiting(call), round),
      isAlone: true,
    };
  }

  #answered(open: OpenAsk, response: RpcResponse, state: string): RpcResponse | undefined {
    this.#open.delete(open);
    // Nobody waits for the call any more: the server must not go on with it.
    if (open.withdrawn) return undefined;
    if ('error' in response && response.error.code === LEFT_OPEN && open.kept) {
      void this.#fail(open, LEFT_OPEN, (id) => leftOpen(id).message);
      return undefined;
    }
    if (open.isAlone && open.ask.connection.target.kind !== 'http') this.#forget(open);
    return raise(response, { state });
  }

  /** Its state takes an answer to any instance, so it can also go in a session of the transport that has begun since. */
  async #retry({ leftIn }: Ask, call: Call, error: unknown): Promise<boolean> {
    const { connection, session } = call;
    call.leftIn = leftIn;
    if (!(await connection.putRight(call, error))) return false;
    if (session !== undefined && connection.server.lacksSessions) throw sessionsLacking(undefined);
    return !call.isGivenUp;
  }

  /** What the server answered to the answer. */
  async #reply(open: OpenAsk, reply: Response): Promise<void> {
    const why = await goOnWith(open.ask.connection, open.call, reply);
    // The server may never have gone on: the answer can be given again.
    if (why !== undefined) await this.#fail(open, -32_000, () => why);
  }

  /** The server does not take an answer any more: nothing is left to answer. */
  async #expired({ ask, call, kept }: OpenAsk): Promise<void> {
    const pending = await kept;
    if (pending !== undefined) await this.#pendingStore.tryDrop(pending);
    if (!call) return;
    this.#drives.take(ask.connection, call.request.id);
    ask.connection.fail(call, EXPIRED.code, EXPIRED.message);
  }

  async #fail(
    { ask, call, kept }: OpenAsk,
    code: number,
    message: (id: string | undefined) => string,
  ): Promise<void> {
    const pending = await kept;
    if (!call) return;
    this.#drives.take(ask.connection, call.request.id);
    ask.connection.fail(call, code, message(pending), pending === undefined ? {} : { pending });
  }

  #forget({ kept }: OpenAsk): void {
    kept?.then((id) => id !== undefined && this.#pendingStore.drop(id)).catch(() => {});
  }
}

function roundOf({ request: { id, method, params } }: Ask, state: string, call: Call | undefined): Round {
  return {
    form: 'state',
    questions: [{ key: String(id), method, ...(params && { params }) }],
    state,
    askId: id,
    ...(call && { callId: call.wireId }),
  };
}

/** The call in whose course the server asks: by the HTTP answer that the question came on, its id, or as the only one there is. */
function callOf({ connection, request: { id } }: Ask): Call | undefined {
  const origin = currentHints()?.origin;
  if (origin instanceof Call && origin.connection === connection) return origin;
  const named = readQuestionId(id)?.call;
  if (named !== undefined) return connection.calls.get(named);
  const calls = connection.calls.all.filter((call) => INPUT_METHODS.includes(call.method));
  return calls.length === 1 ? calls[0] : undefined;
}
