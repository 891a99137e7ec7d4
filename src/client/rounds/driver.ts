import { type Next, NO_RESPONSE } from '../../core/compose.ts';
import { messageOf } from '../../errors.ts';
import { type Answer, type Response, sessionNotFound } from '../../wire/index.ts';
import type { Call } from '../call.ts';
import { SessionGoneError } from '../sessions/errors.ts';
import { LEFT_OPEN, leftOpen } from './left-open.ts';
import type { PendingStore } from './pending-store.ts';
import { isExpired, type Round, retryOf } from './round.ts';

/** Rounds of one call, of those that ask something: a server must not ask for ever. */
const MAX_ROUNDS = 100;

/** Between two tries where the server only says that it is still waiting, in milliseconds. */
const PACE = 250;

/** What a question may be; others are answered with an error. */
const ASKABLE = new Set(['elicitation/create', 'sampling/createMessage', 'roots/list', 'ping']);

const METHOD_NOT_FOUND = -32_601;

type Driven = Round & { readonly form: 'input' | 'dependent' };

/** Answers the rounds of a call from the client's own handlers, and keeps the one that is open, until the server has answered the call. */
export class Drive {
  readonly #call: Call;
  readonly #pendingStore: PendingStore;
  readonly #stop = new AbortController();
  #isAsking = false;
  #asked = 0;
  #sent = 0;
  #kept: Promise<string | undefined> | undefined;

  constructor(call: Call, pendingStore: PendingStore) {
    this.#call = call;
    this.#pendingStore = pendingStore;
  }

  /** True while the client's handlers are at work, and the server waits for nothing. */
  get isAsking(): boolean {
    return this.#isAsking;
  }

  /** Keeps the round that the call is in now, in the place of the one before, whichever way their questions came. */
  keep(round: Round): Promise<string | undefined> {
    const keep = (id?: string): Promise<string | undefined> =>
      this.#pendingStore.tryKeep(this.#call.connection, this.#pendingStore.waiting(this.#call), round, id);
    this.#kept = this.#kept ? this.#kept.then(keep) : keep();
    return this.#kept;
  }

  /** The id of the round that is kept. */
  get kept(): Promise<string | undefined> | undefined {
    return this.#kept;
  }

  /** Goes on with the next round of the call. Throws {@link RoundFailure} if it does not go on, and NO_RESPONSE if nobody waits for it. */
  async round(round: Driven, next: Next<Response>): Promise<Response> {
    const { method } = this.#call;
    if (round.questions.length > 0 && ++this.#asked > MAX_ROUNDS) {
      await this.end();
      throw new RoundFailure(
        -32_000,
        `${method} still asked for input after ${MAX_ROUNDS} rounds, the most there may be.`,
      );
    }
    this.#isAsking = true;
    const kept = await this.keep(round);
    if (this.#stop.signal.aborted) throw NO_RESPONSE;
    const answers = await this.#answers(round);
    this.#isAsking = false;
    if (this.#stop.signal.aborted) throw NO_RESPONSE;
    if (answers.some((answer) => 'error' in answer && answer.error.code === LEFT_OPEN)) {
      const { message, data } = leftOpen(kept);
      throw new RoundFailure(LEFT_OPEN, message, data);
    }
    const failed = round.form === 'input' ? answers.find((answer) => 'error' in answer) : undefined;
    if (failed && 'error' in failed) {
      await this.end();
      throw new RoundFailure(failed.error.code, failed.error.message);
    }
    Object.assign(this.#call, retryOf(this.#call.request, round, answers), { mark: `~${++this.#sent}` });
    return this.#retry(next, kept);
  }

  /** The call has its answer: nothing waits any more. */
  async end(): Promise<void> {
    const kept = await this.#kept;
    this.#kept = undefined;
    if (kept !== undefined) await this.#pendingStore.tryDrop(kept);
  }

  /** The caller does not want the answer any more. `keep`: it only could not wait, and the question stays open. */
  async cancel(keep: boolean): Promise<void> {
    this.#stop.abort();
    if (!keep) await this.end();
  }

  async #answers({ questions }: Driven): Promise<Answer[]> {
    if (questions.length === 0) {
      await new Promise((resolve) => setTimeout(resolve, PACE));
      return [];
    }
    const { connection } = this.#call;
    return Promise.all(
      questions.map(async ({ method, params }) => {
        if (!ASKABLE.has(method))
          return { error: { code: METHOD_NOT_FOUND, message: `${method} cannot be asked.` } };
        return answerIn(await connection.askClient(method, params, this.#stop.signal));
      }),
    );
  }

  async #retry(next: Next<Response>, pending: string | undefined): Promise<Response> {
    const call = this.#call;
    try {
      return await next();
    } catch (error) {
      if (error === NO_RESPONSE) throw error;
      if (error instanceof SessionGoneError) {
        await this.end();
        const { code, message, data } = sessionNotFound(call.spelling.sessions, error.sessionId, {
          begun: error.hasBegun,
        });
        throw new RoundFailure(code, message, data as object);
      }
      if (isExpired(error)) {
        await this.end();
        throw new RoundFailure(EXPIRED.code, EXPIRED.message);
      }
      // The round is still open, and the caller can go on with it once the server is there again.
      const reason = messageOf(error);
      throw new RoundFailure(-32_000, `The answer could not be delivered: ${reason}`, { pending });
    }
  }
}

/** What the caller hears of a call whose question expired before the answer came: nothing is left to answer. */
export const EXPIRED = {
  code: -32_602,
  message: 'The question had expired when the answer came. Make the call again.',
} as const;

/** Ends a call with an error. */
export class RoundFailure extends Error {
  readonly code: number;
  readonly data: object | undefined;

  constructor(code: number, message: string, data?: object) {
    super(message);
    this.code = code;
    this.data = data;
  }
}

/** A response as an answer. */
export function answerIn(response: Response): Answer {
  return 'result' in response ? { result: response.result } : { error: response.error };
}
