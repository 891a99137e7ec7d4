import { type Next, NO_RESPONSE } from '../../core/compose.ts';
import { messageOf } from '../../errors.ts';
import { type Answer, type Response, sessionNotFound } from '../../wire/index.ts';
import type { Call } from '../call.ts';
import type { Connection } from '../connection.ts';
import { SessionGoneError } from '../sessions/errors.ts';
import { EXPIRED, FlowError, isExpired, LEFT_OPEN, leftOpen } from './errors.ts';
import type { PendingStore } from './pending-store.ts';
import { type Questions, retryOf } from './questions.ts';

/** The maximum number of times that a call may ask, so that a server cannot ask forever. */
const MAX_ROUNDS = 100;

/** The delay between retries if the server only says that it is still waiting, in milliseconds. */
const PACE = 250;

/** The methods a question may have. Others are answered with an error. */
const ASKABLE = new Set(['elicitation/create', 'sampling/createMessage', 'roots/list', 'ping']);

const METHOD_NOT_FOUND = -32_601;

/** The calls in progress that have been asked something, each with its pending question. */
export class AnsweringCalls {
  readonly #pendingStore: PendingStore;
  readonly #all = new Map<Call, Answering>();

  constructor(pendingStore: PendingStore) {
    this.#pendingStore = pendingStore;
  }

  /** Returns the entry of a call, and creates it with the call's first question. */
  of(call: Call): Answering {
    let answering = this.#all.get(call);
    if (answering) return answering;
    answering = new Answering(call, this.#pendingStore);
    if (!call.signal.aborted) this.#all.set(call, answering);
    // A caller that timed out, or a closed connection, leaves the question open for later.
    const abandon = (): void => {
      if (call.signal.reason === 'cancelled') void answering.end();
      this.#all.delete(call);
    };
    call.signal.addEventListener('abort', abandon, { once: true });
    return answering;
  }

  /** Removes and returns the entry of a call that is over. Returns undefined if the call was never asked anything. */
  take(call: Call): Answering | undefined {
    const answering = this.#all.get(call);
    this.#all.delete(call);
    return answering;
  }

  /** Whether a call of the connection waits for the answer to this pending question. */
  async holds(connection: Connection, id: string): Promise<boolean> {
    for (const [call, { pending }] of this.#all)
      if (call.connection === connection && (await pending) === id) return true;
    return false;
  }
}

/**
 * Answers the questions of a call with the client's own handlers. Stores the pending question until the server returns the
 * result of the call.
 */
export class Answering {
  readonly #call: Call;
  readonly #pendingStore: PendingStore;
  #asked = 0;
  #sent = 0;
  #pending: Promise<string | undefined> | undefined;

  constructor(call: Call, pendingStore: PendingStore) {
    this.#call = call;
    this.#pendingStore = pendingStore;
  }

  /** The id of the pending question. */
  get pending(): Promise<string | undefined> | undefined {
    return this.#pending;
  }

  /** Stores the call's current questions in place of the previous ones, whatever carried them. */
  store(questions: Questions): Promise<string | undefined> {
    const { connection } = this.#call;
    const store = (id?: string): Promise<string | undefined> =>
      this.#pendingStore.tryKeep(connection, this.#pendingStore.waiting(this.#call), questions, id);
    this.#pending = this.#pending ? this.#pending.then(store) : store();
    return this.#pending;
  }

  /**
   * Asks the client, and retries the call with the answers. Throws {@link FlowError} if the call cannot continue, and
   * NO_RESPONSE if the caller has given up on it.
   */
  async answer(questions: Retryable, next: Next<Response>): Promise<Response> {
    const call = this.#call;
    if (questions.questions.length > 0 && ++this.#asked > MAX_ROUNDS) {
      await this.end();
      throw new FlowError(
        -32_000,
        `${call.method} still asked for input after ${MAX_ROUNDS} rounds, the most there may be.`,
      );
    }
    const pending = await this.store(questions);
    if (call.signal.aborted) throw NO_RESPONSE;
    const answers = await this.#ask(questions);
    if (call.signal.aborted) throw NO_RESPONSE;
    if (answers.some((answer) => 'error' in answer && answer.error.code === LEFT_OPEN)) {
      const { message, data } = leftOpen(pending);
      throw new FlowError(LEFT_OPEN, message, data);
    }
    const failed = questions.carrier === 'input' ? answers.find((answer) => 'error' in answer) : undefined;
    if (failed && 'error' in failed) {
      await this.end();
      throw new FlowError(failed.error.code, failed.error.message);
    }
    Object.assign(call, retryOf(call.request, questions, answers), { mark: `~${++this.#sent}` });
    try {
      return await next();
    } catch (error) {
      throw error === NO_RESPONSE ? error : await this.#failure(error, pending);
    }
  }

  /** Drops the pending question, because the call has its response. */
  async end(): Promise<void> {
    const pending = await this.#pending;
    this.#pending = undefined;
    if (pending !== undefined) await this.#pendingStore.tryDrop(pending);
  }

  async #ask({ questions }: Retryable): Promise<Answer[]> {
    if (questions.length === 0) {
      await new Promise((resolve) => setTimeout(resolve, PACE));
      return [];
    }
    const { connection, signal } = this.#call;
    return Promise.all(
      questions.map(async ({ method, params }) => {
        if (!ASKABLE.has(method))
          return { error: { code: METHOD_NOT_FOUND, message: `${method} cannot be asked.` } };
        return answerIn(await connection.askClient(method, params, signal));
      }),
    );
  }

  /** Returns the error for a retry that could not be delivered. */
  async #failure(error: unknown, pending: string | undefined): Promise<FlowError> {
    if (error instanceof SessionGoneError) {
      await this.end();
      const { sessions } = this.#call.spelling;
      const { code, message, data } = sessionNotFound(sessions, error.sessionId, { begun: error.hasBegun });
      return new FlowError(code, message, data as object);
    }
    if (isExpired(error)) {
      await this.end();
      return new FlowError(EXPIRED.code, EXPIRED.message);
    }
    // The question is still open, so the caller can continue the call once the server is reachable again.
    return new FlowError(-32_000, `The answer could not be delivered: ${messageOf(error)}`, { pending });
  }
}

/** Questions that are answered by retrying the call. */
type Retryable = Questions & { readonly carrier: 'input' | 'dependent' };

/** Converts a response to an answer. */
export function answerIn(response: Response): Answer {
  return 'result' in response ? { result: response.result } : { error: response.error };
}
