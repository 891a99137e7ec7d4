import { isObject } from '../../json.ts';
import { Course } from '../../link/course.ts';
import { sha256 } from '../../sha256.ts';
import { negotiatedEra } from '../../wire/era.ts';
import { INPUT_METHODS, inputRequired, outcomeIn, type Result } from '../../wire/index.ts';
import { type Call, saysTimeout } from '../call.ts';
import { SessionGoneError } from '../sessions/errors.ts';
import { targetKey } from '../target.ts';
import { isExpired, LEFT_OPEN, leftOpen, NotDeliveredError } from './errors.ts';
import type { PendingRecord } from './pending-store.ts';
import type { Questions } from './questions.ts';

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

const current = new Course<SdkCall>();

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
  requesting.request = (asked, ...rest) =>
    INPUT_METHODS.includes(asked.method) && negotiatedEra(client) === 'modern'
      ? follow(client, () => send(asked, ...rest), { signal: rest.map(signalOf).find(Boolean) })
      : send(asked, ...rest);
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

function signalOf(options: unknown): AbortSignal | undefined {
  return (options as { readonly signal?: AbortSignal } | undefined)?.signal;
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

  /** Removes and returns a question with this context: `id` if it is given, or else the oldest. */
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
