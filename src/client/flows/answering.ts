import { AsyncVariable } from '../../core/async-context.ts';
import { type Next, NO_RESPONSE } from '../../core/compose.ts';
import { messageOf } from '../../core/errors.ts';
import { isObject } from '../../core/json.ts';
import { saysTimeout } from '../../core/link.ts';
import { sha256 } from '../../core/sha256.ts';
import { negotiatedCodec } from '../../wire/codec.ts';
import {
  type Answer,
  INPUT_METHODS,
  inputRequired,
  outcomeIn,
  type Response,
  type Result,
  sessionNotFound,
} from '../../wire/index.ts';
import type { Call } from '../call.ts';
import type { Connection } from '../connection.ts';
import { targetKey } from '../identity/target.ts';
import { SessionGoneError } from '../sessions/errors.ts';
import { EXPIRED, FlowError, isExpired, LEFT_OPEN, leftOpen, NotDeliveredError } from './errors.ts';
import type { PendingRecord, PendingStore } from './pending-store.ts';
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
  async waitsFor(connection: Connection, id: string): Promise<boolean> {
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

/** A pending question that the SDK itself answers. Its call receives it as the response, and continues from there. */
interface Resumed {
  readonly id: string;
  readonly requestState: string | undefined;
  readonly result: Result;
}

/** A call whose questions the SDK answers by itself, as it does on 2026-07-28. */
export interface SdkCall {
  /** The client that made the call. Requests that a handler sends to another server are not part of the call. */
  readonly client: object;
  /** The signal with which the caller gives up on the call. */
  readonly signal: AbortSignal | undefined;
  /** The pending question that replaces the call's first response. */
  resumes: Resumed | undefined;
  /** Whether the call was made to answer a question that is older than itself. */
  readonly isResumed: boolean;
  /** The id of the pending question that the call waits for. */
  pending: string | undefined;
  /** Drops that question. */
  drop: ((id: string) => Promise<void>) | undefined;
  /** True while the client's handlers run, and false while the server works on the call. */
  isAsking: boolean;
  /** Settles when the call does. */
  done: Promise<unknown> | undefined;
}

const current = new AsyncVariable<SdkCall>();

/** Returns the call of this client in whose async context the current code runs, whether in the SDK or in a handler. */
export function currentCall(client: object | undefined): SdkCall | undefined {
  const call = current.current;
  return call?.client === client ? call : undefined;
}

type Send = (request: { readonly method: string }, ...rest: unknown[]) => Promise<unknown>;

interface Requesting {
  request: Send;
}

/** The `request` methods of the clients whose calls are followed, as they were before. */
const followed = new WeakMap<object, Send>();

/** Follows the calls of a client, because on 2026-07-28 nothing on the wire shows the outcome of its handlers. */
export function followCalls(client: object): void {
  const requesting = client as Requesting;
  if (followed.has(client) || !('getProtocolEra' in client)) return;
  const send = requesting.request.bind(client);
  followed.set(client, send);
  requesting.request = (asked, ...rest) => {
    if (!INPUT_METHODS.includes(asked.method) || !negotiatedCodec(client)?.asksByResult)
      return send(asked, ...rest);
    // SDK v2 takes the options as the last argument, behind a schema if there is one.
    const { signal } = (rest.at(-1) ?? {}) as { readonly signal?: AbortSignal };
    return follow(client, () => send(asked, ...rest), { signal });
  };
}

/** Lets an SDK client answer a pending question, and all later ones of its call, with its own handlers. */
export function resume(
  client: object,
  { id, method, params, asked }: PendingRecord & { readonly method: string },
): Promise<Result> {
  const { questions, requestState } = asked as Questions & { readonly carrier: 'input' };
  const inputRequests = Object.fromEntries(questions.map(({ key, ...request }) => [key, request]));
  const result = inputRequired({
    ...(questions.length > 0 && { inputRequests }),
    ...(requestState !== undefined && { requestState }),
  });
  const send = followed.get(client) ?? (client as Requesting).request.bind(client);
  const request = { method, params };
  return follow(client, () => send(request), { resumes: { id, requestState, result } }) as Promise<Result>;
}

function follow(
  client: object,
  send: () => Promise<unknown>,
  { signal, resumes }: Partial<Pick<SdkCall, 'signal' | 'resumes'>>,
): Promise<unknown> {
  const call: SdkCall = {
    client,
    signal,
    resumes,
    isResumed: resumes !== undefined,
    pending: undefined,
    drop: undefined,
    isAsking: false,
    done: undefined,
  };
  // While the client's handlers run, the SDK reports an abort only to them.
  const aborted = (): void => {
    if (isGivenUp(call) && call.isAsking) void withdraw(call);
  };
  signal?.addEventListener('abort', aborted, { once: true });
  const failed = async (error: unknown): Promise<never> => {
    throw await failureOf(call, error);
  };
  const done = current.run(call, () => send().catch(failed));
  call.done = signal ? done.finally(() => signal.removeEventListener('abort', aborted)) : done;
  return call.done;
}

/** Whether the caller no longer wants the response. A caller that only timed out may want it later. */
export function isGivenUp({ signal }: SdkCall): boolean {
  return signal?.aborted === true && !saysTimeout(signal.reason);
}

/** Drops the question of a call, unless the question is older than the call and so does not belong to it. */
async function withdraw(call: SdkCall): Promise<void> {
  const { pending, isResumed, drop } = call;
  if (isResumed || pending === undefined) return;
  call.pending = undefined;
  await drop?.(pending);
}

/** Returns the error for the caller of a failed call, and drops a question that nobody will answer. */
async function failureOf(call: SdkCall, error: unknown): Promise<unknown> {
  const { pending, isAsking, drop } = call;
  const { code } = (error ?? {}) as { readonly code?: unknown };
  if (pending === undefined || isTimeout(error)) return error;
  // The handler does not know the id of the question it leaves open.
  if (code === LEFT_OPEN) return Object.assign(error as Error, leftOpen(pending));
  // The server received the answer and reports the outcome itself. The question is still stored.
  if (outcomeIn(error ?? {}) === 'not-done') return error;
  // A question ends with its session, and nobody can answer an expired one.
  if (error instanceof SessionGoneError || isExpired(error)) await drop?.(pending);
  else if (!isAsking && !isGivenUp(call)) return new NotDeliveredError(pending, error);
  // The handler failed, or the caller gave up.
  else await withdraw(call);
  return error;
}

/** Whether the SDK or a signal timed out. A server or handler error that mentions a timeout does not count. */
function isTimeout(error: unknown): boolean {
  const { code, name, message } = (error ?? {}) as Readonly<Record<string, unknown>>;
  return (code === 'REQUEST_TIMEOUT' || name === 'TimeoutError') && saysTimeout(message);
}

/** Whether Valise made this call to continue a stored one. The code that started it also answers its next questions. */
export function isOwn({ request }: Call): boolean {
  return typeof request.id === 'string' && request.id.startsWith('valise:');
}

/** The maximum number of contexts remembered here. The store still has the questions that are forgotten. */
const MAX_CONTEXTS = 1000;

/** The maximum number of questions remembered with the same context. */
const MAX_ALIKE = 100;

/** Finds the pending question when its answer is sent, for questions that the SDK answers by itself. */
export class QuestionsByContext {
  /** Keyed by the digest of the context, because a server may send a long one. */
  readonly #ids = new Map<string, readonly string[]>();
  readonly #forgot: (id: string) => void;

  /** Calls `forgot` for each question that is evicted. */
  constructor(forgot: (id: string) => void) {
    this.#forgot = forgot;
  }

  add(context: string, id: string): void {
    const key = sha256(context);
    const alike = [...(this.#ids.get(key) ?? []), id];
    this.#ids.set(key, alike.slice(-MAX_ALIKE));
    alike.slice(0, -MAX_ALIKE).forEach(this.#forgot);
    if (this.#ids.size <= MAX_CONTEXTS) return;
    const [oldest] = this.#ids;
    if (!oldest) return;
    this.#ids.delete(oldest[0]);
    oldest[1].forEach(this.#forgot);
  }

  /** Removes and returns a question with this context: `id`, or by default the oldest. */
  take(context: string, id?: string): string | undefined {
    const key = sha256(context);
    const ids = this.#ids.get(key) ?? [];
    const taken = id ?? ids[0];
    const rest = ids.filter((other) => other !== taken);
    if (rest.length > 0) this.#ids.set(key, rest);
    else this.#ids.delete(key);
    return taken;
  }
}

/** Returns the key that identifies the answer to a question: the server's context, or a digest of the call if there is none. */
export function contextOf(call: Call, { requestState }: Questions & { readonly carrier: 'input' }): string {
  return requestState ?? nameOf(call);
}

/** Returns the context of the question that a call answers. Returns undefined if it answers none. */
export function answeredBy(call: Call): string | undefined {
  const { requestState, inputResponses } = call.request.params ?? {};
  if (typeof requestState === 'string') return requestState;
  return isObject(inputResponses) ? nameOf(call) : undefined;
}

function nameOf({ connection, request }: Call): string {
  const { _meta, inputResponses, requestState, ...params } = request.params ?? {};
  return sha256(JSON.stringify([targetKey(connection.target), request.method, params]));
}
