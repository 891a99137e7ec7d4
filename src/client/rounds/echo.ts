import { messageOf } from '../../errors.ts';
import { currentErrand, withErrand } from '../../link/edge-fetch.ts';
import { raise } from '../../link/top.ts';
import { type Id, INPUT_METHODS, type Response as RpcResponse } from '../../wire/index.ts';
import type { Ask } from '../ask.ts';
import { Call } from '../call.ts';
import type { Connection } from '../connection.ts';
import type { RoundDesk } from './desk.ts';
import { LEFT_OPEN, leftOpen } from './left-open.ts';
import { messagesOf } from './replies.ts';
import type { Round } from './round.ts';

/** A question that came with a state, until it is answered. */
interface OpenAsk {
  readonly ask: Ask;
  readonly call: Call | undefined;
  /** The id under which it is kept; undefined where it need not be. */
  readonly kept: Promise<string | undefined> | undefined;
  withdrawn: boolean;
}

/** Echoes the state that comes with a server's own request, to the letter, and keeps the question until then. */
export class Echo {
  readonly #desk: RoundDesk;
  readonly #open = new Set<OpenAsk>();

  constructor(desk: RoundDesk) {
    this.#desk = desk;
  }

  /**
   * A request of the server has come. The client sees it once it is kept, so that no end of this process loses it; false
   * where nobody waits for its answer by then.
   */
  asked(ask: Ask): Promise<boolean> | undefined {
    const { connection } = ask;
    const call = callOf(ask);
    // Other calls may change the session while the client is asked.
    ask.whenAnswered((response) => this.#desk.sessions.naming(connection, call?.session, response));
    const state = ask.top?.state;
    if (state === undefined) return undefined;
    const open: OpenAsk = { ask, call, kept: this.#keep(ask, call, state), withdrawn: false };
    this.#open.add(open);
    ask.whenAnswered((response) => this.#answered(open, response, state));
    ask.undelivered = (error) => {
      const reason = messageOf(error);
      void this.#fail(open, -32_000, () => `The answer could not be delivered: ${reason}`);
    };
    if (connection.target.kind === 'http') {
      ask.errand = {
        onReply: (reply) => void this.#reply(open, reply),
        onResponse: ({ ok }) => {
          if (ok) this.#forget(open);
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
      if (!keep) this.#forget(open);
    }
  }

  /** True while a question of the server is open on this connection. */
  isAsking(connection: Connection): boolean {
    for (const { ask } of this.#open) if (ask.connection === connection) return true;
    return false;
  }

  /** The connection is gone; its questions are kept for the next one. */
  closed(connection: Connection): void {
    for (const open of this.#open) if (open.ask.connection === connection) this.#open.delete(open);
  }

  #keep(ask: Ask, call: Call | undefined, state: string): OpenAsk['kept'] {
    if (call) call.movedOn = true;
    const { id, method, params } = ask.request;
    // A `ping` is answered at once, and nothing of it needs to be kept.
    if (method === 'ping') return undefined;
    const round: Round = {
      form: 'state',
      questions: [{ key: String(id), method, ...(params && { params }) }],
      state,
      askId: id,
      ...(call && { callId: call.wireId }),
    };
    return this.#desk.tryKeep(ask.connection, call && this.#desk.waiting(call), round);
  }

  #answered(open: OpenAsk, response: RpcResponse, state: string): RpcResponse | undefined {
    this.#open.delete(open);
    // Nobody waits for the call any more: the server must not go on with it.
    if (open.withdrawn) return undefined;
    if ('error' in response && response.error.code === LEFT_OPEN && open.kept) {
      void this.#fail(open, LEFT_OPEN, (id) => leftOpen(id).message);
      return undefined;
    }
    if (open.ask.connection.target.kind !== 'http') this.#forget(open);
    return raise(response, { state });
  }

  /** What the server answered to the answer: the rest of the call, up to its result or its next question. */
  async #reply({ ask: { connection }, call }: OpenAsk, reply: Response): Promise<void> {
    let goesOn = false;
    let reason = 'the server ended it';
    try {
      for await (const message of messagesOf(reply)) {
        goesOn ||= 'id' in message;
        // What comes now still belongs to the call, also where it is the next question.
        if (call) await withErrand({ origin: call }, () => connection.arrive(message));
        else await connection.arrive(message);
      }
    } catch (error) {
      reason = messageOf(error);
    }
    if (call && !goesOn)
      connection.fail(call, -32_000, `The connection broke off before the call was answered: ${reason}.`);
  }

  async #fail(
    { ask, call, kept }: OpenAsk,
    code: number,
    message: (id: string | undefined) => string,
  ): Promise<void> {
    const pending = await kept;
    if (call) ask.connection.fail(call, code, message(pending), pending === undefined ? {} : { pending });
  }

  #forget({ kept }: OpenAsk): void {
    kept?.then((id) => id !== undefined && this.#desk.drop(id)).catch(() => {});
  }
}

/** The call in whose course the server asks: the one on whose HTTP answer the question came, or the only one there is. */
function callOf({ connection }: Ask): Call | undefined {
  const origin = currentErrand()?.origin;
  if (origin instanceof Call && origin.connection === connection) return origin;
  const calls = connection.calls.all.filter((call) => INPUT_METHODS.includes(call.method));
  return calls.length === 1 ? calls[0] : undefined;
}
