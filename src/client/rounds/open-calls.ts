import { messageOf, ValiseError } from '../../errors.ts';
import { Course } from '../../link/course.ts';
import { type Era, INPUT_METHODS, outcomeIn } from '../../wire/index.ts';
import { SessionGoneError } from '../sessions/errors.ts';
import { LEFT_OPEN, leftOpen } from './left-open.ts';
import { isExpired } from './round.ts';

/** A call whose rounds the SDK answers by itself, as it does on 2026-07-28. */
export interface OpenCall {
  /** The client that made the call. Requests that a handler sends to another server are not part of the call. */
  readonly client: object;
  /** The signal with which the caller gives up on the call. */
  readonly signal: AbortSignal | undefined;
  /** The id of the round that the call waits in. */
  pending: string | undefined;
  /** Drops that round. */
  drop: ((id: string) => Promise<void>) | undefined;
  /** True while the client's handlers run, and false while the server works on the call. */
  isAsking: boolean;
  /** Whether the call was made to answer a round that is older than itself. */
  isResumed: boolean;
  /** Settles when the call does. */
  going: Promise<unknown> | undefined;
}

const open = new Course<OpenCall>();

/** Returns the call of this client in whose async context the current code runs, whether in the SDK or in a handler. */
export function currentCall(client: object | undefined): OpenCall | undefined {
  const call = open.current;
  return call?.client === client ? call : undefined;
}

/** Thrown if the answer to a round, or its outcome, was lost in transit. The round is still stored. */
export class NotDeliveredError extends ValiseError {
  readonly data: { readonly pending: string };

  constructor(pending: string, cause: unknown) {
    const reason = messageOf(cause);
    super('not-delivered', `The answer could not be delivered: ${reason}`, {
      next: `Try again with valise.pending.answer(${JSON.stringify(pending)}, …).`,
      cause,
    });
    this.data = { pending };
  }
}

interface Requesting {
  request(request: { readonly method: string }, ...rest: unknown[]): Promise<unknown>;
  getProtocolEra?(): Era | undefined;
}

const followed = new WeakSet<object>();

/** Follows the calls of a client, because on 2026-07-28 nothing on the wire shows the outcome of its handlers. */
export function followCalls(client: object): void {
  const requesting = client as Requesting;
  if (followed.has(client) || !requesting.getProtocolEra) return;
  followed.add(client);
  const request = requesting.request.bind(client);
  requesting.request = (asked, ...rest) => {
    if (!INPUT_METHODS.includes(asked.method) || requesting.getProtocolEra?.() !== 'modern')
      return request(asked, ...rest);
    const signal = rest.map(signalOf).find((found) => found !== undefined);
    const call: OpenCall = {
      client,
      signal,
      pending: undefined,
      drop: undefined,
      isAsking: false,
      isResumed: false,
      going: undefined,
    };
    // While the client's handlers run, the SDK reports an abort only to them.
    const left = (): void => {
      if (isGivenUp(call) && call.isAsking) void takeBack(call);
    };
    signal?.addEventListener('abort', left, { once: true });
    const failed = async (error: unknown): Promise<never> => {
      throw await ended(call, error);
    };
    const going = open.run(call, () => request(asked, ...rest).catch(failed));
    call.going = signal ? going.finally(() => signal.removeEventListener('abort', left)) : going;
    return call.going;
  };
}

/** Whether the caller no longer wants the response. A caller that only timed out may want it later. */
export function isGivenUp({ signal }: OpenCall): boolean {
  return signal?.aborted === true && !saysTimeout(signal.reason);
}

/** Drops the round of a call, unless the round is older than the call and so does not belong to it. */
async function takeBack(call: OpenCall): Promise<void> {
  const { pending, isResumed, drop } = call;
  if (isResumed || pending === undefined) return;
  call.pending = undefined;
  await drop?.(pending);
}

/** Returns the error for the caller of a failed call, and drops a round that nobody will answer. */
async function ended(call: OpenCall, error: unknown): Promise<unknown> {
  const { pending, isAsking, drop } = call;
  const { code } = (error ?? {}) as { readonly code?: unknown };
  if (pending === undefined || isTimeout(error)) return error;
  // The handler does not know the id of the round it leaves open.
  if (code === LEFT_OPEN) return Object.assign(error as Error, leftOpen(pending));
  // The server received the answer and reports the outcome itself. The round is still stored.
  if (outcomeIn(error ?? {}) === 'not-done') return error;
  // A round ends with its session, and nobody can answer an expired one.
  if (error instanceof SessionGoneError || isExpired(error)) await drop?.(pending);
  else if (!isAsking && !isGivenUp(call)) return new NotDeliveredError(pending, error);
  // The handler failed, or the caller gave up.
  else await takeBack(call);
  return error;
}

/** Whether the SDK or a signal timed out. A server or handler error that mentions a timeout does not count. */
function isTimeout(error: unknown): boolean {
  const { code, name, message } = (error ?? {}) as Readonly<Record<string, unknown>>;
  return (code === 'REQUEST_TIMEOUT' || name === 'TimeoutError') && saysTimeout(message);
}

/** Whether the SDK's text reports a timeout. The SDKs have no code for it. */
export function saysTimeout(reason: unknown): boolean {
  return /timed? ?out/i.test(String(reason));
}

function signalOf(options: unknown): AbortSignal | undefined {
  return (options as { readonly signal?: AbortSignal } | undefined)?.signal;
}
