import { type Next, NO_RESPONSE } from '../../core/compose.ts';
import { messageOf } from '../../errors.ts';
import { type Answer, type Response, sessionNotFound } from '../../wire/index.ts';
import type { Call } from '../call.ts';
import { SessionGoneError } from '../sessions/errors.ts';
import { LEFT_OPEN, leftOpen } from './left-open.ts';
import type { PendingStore } from './pending-store.ts';
import { isExpired, type Round, retryOf } from './round.ts';

/** The maximum number of rounds with questions per call, so that a server cannot ask forever. */
const MAX_ROUNDS = 100;

/** The delay between retries if the server only says that it is still waiting, in milliseconds. */
const PACE = 250;

/** The methods a question may have. Others are answered with an error. */
const ASKABLE = new Set(['elicitation/create', 'sampling/createMessage', 'roots/list', 'ping']);

const METHOD_NOT_FOUND = -32_601;

type Driven = Round & { readonly form: 'input' | 'dependent' };

/**
 * Answers the rounds of a call with the client's own handlers. Stores the open round until the server returns the result of
 * the call.
 */
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

  /** Whether the client's handlers are running, so that the server has no request to work on. */
  get isAsking(): boolean {
    return this.#isAsking;
  }

  /** Stores the call's current round in place of the previous one, in whichever form the questions came. */
  keep(round: Round): Promise<string | undefined> {
    const keep = (id?: string): Promise<string | undefined> =>
      this.#pendingStore.tryKeep(this.#call.connection, this.#pendingStore.waiting(this.#call), round, id);
    this.#kept = this.#kept ? this.#kept.then(keep) : keep();
    return this.#kept;
  }

  /** The id of the stored round. */
  get kept(): Promise<string | undefined> | undefined {
    return this.#kept;
  }

  /**
   * Runs the next round of the call. Throws {@link RoundFailure} if the call cannot continue, and NO_RESPONSE if the caller
   * has given up on it.
   */
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

  /** Drops the stored round, because the call has its response. */
  async end(): Promise<void> {
    const kept = await this.#kept;
    this.#kept = undefined;
    if (kept !== undefined) await this.#pendingStore.tryDrop(kept);
  }

  /** Stops asking, because the caller gave up. With `keep`, the caller only timed out, and the question stays open. */
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
      // The round is still open, so the caller can continue it once the server is reachable again.
      const reason = messageOf(error);
      throw new RoundFailure(-32_000, `The answer could not be delivered: ${reason}`, { pending });
    }
  }
}

/** The error of a call whose question expired before the answer arrived. There is nothing left to answer. */
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

/** Converts a response to an answer. */
export function answerIn(response: Response): Answer {
  return 'result' in response ? { result: response.result } : { error: response.error };
}
