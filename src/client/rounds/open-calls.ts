import { messageOf, ValiseError } from '../../errors.ts';
import { Course } from '../../link/course.ts';
import { type Era, INPUT_METHODS, outcomeIn } from '../../wire/index.ts';
import { SessionGoneError } from '../sessions/errors.ts';
import { LEFT_OPEN, leftOpen } from './left-open.ts';
import { isExpired } from './round.ts';

/** A call whose rounds the SDK answers by itself, as it does on 2026-07-28. */
export interface OpenCall {
  /** Whose it is: what a handler sends to another server is not its next step. */
  readonly client: object;
  /** By which its caller gives it up. */
  readonly signal: AbortSignal | undefined;
  /** The id of the round that it waits in. */
  pending: string | undefined;
  /** Forgets that round. */
  drop: ((id: string) => Promise<void>) | undefined;
  /** True while the client's handlers are at work; false while the server is. */
  isAsking: boolean;
  /** True where it was made to answer a round that is older than itself. */
  isResumed: boolean;
  /** Settles with it. */
  going: Promise<unknown> | undefined;
}

const open = new Course<OpenCall>();

/** The call of a client in whose course the present code runs, be it the SDK's or a handler's. */
export function currentCall(client: object | undefined): OpenCall | undefined {
  const call = open.current;
  return call?.client === client ? call : undefined;
}

/** The answer of a round got lost on its way, or what came of it did. The round is still kept. */
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

/** Follows the calls of a client: on 2026-07-28 nothing on the wire tells how the asking of its handlers went. */
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
    // While the client's handlers are at work, the SDK tells nobody but them.
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

/** True where its caller does not want the answer any more; one that could not wait may want it later. */
export function isGivenUp({ signal }: OpenCall): boolean {
  return signal?.aborted === true && !saysTimeout(signal.reason);
}

/** Drops the round of a call, unless it is older than the call: then it is not the call's to end. */
async function takeBack(call: OpenCall): Promise<void> {
  const { pending, isResumed, drop } = call;
  if (isResumed || pending === undefined) return;
  call.pending = undefined;
  await drop?.(pending);
}

/** What the caller hears of a call that has failed; a round that nobody will answer is dropped. */
async function ended(call: OpenCall, error: unknown): Promise<unknown> {
  const { pending, isAsking, drop } = call;
  const { code } = (error ?? {}) as { readonly code?: unknown };
  if (pending === undefined || isTimeout(error)) return error;
  // The handler does not know which round it leaves open.
  if (code === LEFT_OPEN) return Object.assign(error as Error, leftOpen(pending));
  // The server has had the answer, and says itself what came of it; the round is still kept.
  if (outcomeIn(error ?? {}) === 'not-done') return error;
  // Where the session is gone, so is the round; and nobody can answer one that has expired.
  if (error instanceof SessionGoneError || isExpired(error)) await drop?.(pending);
  else if (!isAsking && !isGivenUp(call)) return new NotDeliveredError(pending, error);
  // The handler has failed, or the caller does not want the answer any more.
  else await takeBack(call);
  return error;
}

/** True where the SDK, or a signal, could not wait any longer; what a server or a handler says of time is another matter. */
function isTimeout(error: unknown): boolean {
  const { code, name, message } = (error ?? {}) as Readonly<Record<string, unknown>>;
  return (code === 'REQUEST_TIMEOUT' || name === 'TimeoutError') && saysTimeout(message);
}

/** True where the SDKs say that somebody could not wait any longer; they have no code for it. */
export function saysTimeout(reason: unknown): boolean {
  return /timed? ?out/i.test(String(reason));
}

function signalOf(options: unknown): AbortSignal | undefined {
  return (options as { readonly signal?: AbortSignal } | undefined)?.signal;
}
