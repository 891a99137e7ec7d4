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
  /** The id under which it is stored. Undefined if it does not need to be stored. */
  readonly kept: Promise<string | undefined> | undefined;
  /** Whether it is stored on its own and ends when it is answered. Otherwise it belongs to its call and ends with it. */
  readonly isAlone: boolean;
  withdrawn: boolean;
}

/** Echoes the state of a server request byte for byte, and stores the question until it is answered. */
export class Echo {
  readonly #pendingStore: PendingStore;
  readonly #drives: Drives;
  readonly #open = new Set<OpenAsk>();

  constructor(pendingStore: PendingStore, drives: Drives) {
    this.#pendingStore = pendingStore;
    this.#drives = drives;
  }

  /**
   * Handles a request from the server. The client sees it only after it is stored, so that it survives the end of this
   * process. Resolves to false if its answer is no longer needed by then.
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

  /** Withdraws the questions of a cancelled call. With `keep`, the caller only timed out, and the questions stay open. */
  cancelled(connection: Connection, requestId: Id, keep: boolean): void {
    for (const open of this.#open) {
      if (open.ask.connection !== connection || open.call?.request.id !== requestId) continue;
      open.withdrawn = true;
      this.#open.delete(open);
      connection.withdraw(open.ask);
      if (!keep && open.isAlone) this.#forget(open);
    }
  }

  /** Removes a question that the server has withdrawn. A question that belongs to a call ends with the call. */
  withdrawn(connection: Connection, requestId: unknown): void {
    for (const open of this.#open) {
      if (open.ask.connection !== connection || open.ask.request.id !== requestId) continue;
      this.#open.delete(open);
      if (open.isAlone) this.#forget(open);
    }
  }

  /** Drops the other questions of a call once the server has returned its result. */
  ended({ connection, request }: Call): void {
    for (const open of this.#open)
      if (open.isAlone && open.ask.connection === connection && open.call?.request.id === request.id)
        this.#forget(open);
  }

  /** Whether the connection's client is being asked the question stored under this id. */
  async holds(connection: Connection, id: string): Promise<boolean> {
    for (const { ask, kept } of this.#open)
      if (ask.connection === connection && (await kept) === id) return true;
    return false;
  }

  /** Forgets the questions of a closed connection. The store keeps them for the next one. */
  closed(connection: Connection): void {
    for (const open of this.#open) if (open.ask.connection === connection) this.#open.delete(open);
  }

  #keep(
    { connection, request: { method } }: Ask,
    call: Call | undefined,
    round: Round,
  ): Pick<OpenAsk, 'kept' | 'isAlone'> {
    const drive = call && this.#drives.of(call);
    // A `ping` is answered immediately. If its call is stored, the call continues from this round.
    if (method === 'ping') return { kept: drive?.kept && drive.keep(round), isAlone: false };
    const isSecond = [...this.#open].some((other) => other.call && other.call === call && other.kept);
    if (drive && !isSecond) return { kept: drive.keep(round), isAlone: false };
    // Except over HTTP, nobody could continue it.
    if (!call && connection.target.kind !== 'http') return { kept: undefined, isAlone: true };
    return {
      kept: this.#pendingStore.tryKeep(connection, call && this.#pendingStore.waiting(call), round),
      isAlone: true,
    };
  }

  #answered(open: OpenAsk, response: RpcResponse, state: string): RpcResponse | undefined {
    this.#open.delete(open);
    // The caller gave up, so the server must not continue the call.
    if (open.withdrawn) return undefined;
    if ('error' in response && response.error.code === LEFT_OPEN && open.kept) {
      void this.#fail(open, LEFT_OPEN, (id) => leftOpen(id).message);
      return undefined;
    }
    if (open.isAlone && open.ask.connection.target.kind !== 'http') this.#forget(open);
    return raise(response, { state });
  }

  /** Retries in a new transport session if necessary. The state lets any instance accept the answer. */
  async #retry({ leftIn }: Ask, call: Call, error: unknown): Promise<boolean> {
    const { connection, session } = call;
    call.leftIn = leftIn;
    if (!(await connection.putRight(call, error))) return false;
    if (session !== undefined && connection.server.lacksSessions) throw sessionsLacking(undefined);
    return !call.isGivenUp;
  }

  /** Processes the server's response to the answer. */
  async #reply(open: OpenAsk, reply: Response): Promise<void> {
    const why = await goOnWith(open.ask.connection, open.call, reply);
    // The server may never have continued the call, so the answer can be given again.
    if (why !== undefined) await this.#fail(open, -32_000, () => why);
  }

  /** Drops a question whose answer the server no longer accepts. */
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

/**
 * Returns the call during which the server asks: the one whose HTTP response carried the question, the one its id names, or
 * the only one in progress.
 */
function callOf({ connection, request: { id } }: Ask): Call | undefined {
  const origin = currentHints()?.origin;
  if (origin instanceof Call && origin.connection === connection) return origin;
  const named = readQuestionId(id)?.call;
  if (named !== undefined) return connection.calls.get(named);
  const calls = connection.calls.all.filter((call) => INPUT_METHODS.includes(call.method));
  return calls.length === 1 ? calls[0] : undefined;
}
