import { messageOf, ValiseError } from '../../errors.ts';
import { Course } from '../../link/course.ts';
import { type Era, INPUT_METHODS, isUndone } from '../../wire/index.ts';
import { SessionGoneError } from '../sessions/errors.ts';
import { LEFT_OPEN, leftOpen } from './left-open.ts';

/** A call whose rounds the SDK answers by itself, as it does on 2026-07-28. */
export interface OpenCall {
  /** The id of the round that it waits in. */
  pending: string | undefined;
  /** True while the client's handlers are at work; false while the server is. */
  isAsking: boolean;
  /** True where it was made to answer a round that is older than itself. */
  isResumed: boolean;
  /** True once its caller does not want the answer any more. */
  isGivenUp: boolean;
  /** Settles with it. */
  going: Promise<unknown> | undefined;
}

const open = new Course<OpenCall>();

/** The call in whose course the present code runs, be it the SDK's or a handler's. */
export function currentCall(): OpenCall | undefined {
  return open.current;
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
export function followCalls(client: object, drop: (id: string) => Promise<unknown>): void {
  const requesting = client as Requesting;
  if (followed.has(client) || !requesting.getProtocolEra) return;
  followed.add(client);
  const request = requesting.request.bind(client);
  requesting.request = (asked, ...rest) => {
    if (!INPUT_METHODS.includes(asked.method) || requesting.getProtocolEra?.() !== 'modern')
      return request(asked, ...rest);
    const call: OpenCall = {
      pending: undefined,
      isAsking: false,
      isResumed: false,
      isGivenUp: false,
      going: undefined,
    };
    const failed = async (error: unknown): Promise<never> => {
      // Its question may be on the way to the store only now.
      call.isGivenUp = rest.some(isAborted) && !isTimeout(error);
      throw await ended(call, error, drop);
    };
    call.going = open.run(call, () => request(asked, ...rest).catch(failed));
    return call.going;
  };
}

/** What the caller hears of a call that has failed; a round that nobody will answer is dropped. */
async function ended(
  { pending, isAsking, isResumed }: OpenCall,
  error: unknown,
  drop: (id: string) => Promise<unknown>,
): Promise<unknown> {
  const { code } = (error ?? {}) as { readonly code?: unknown };
  if (pending === undefined || isTimeout(error)) return error;
  // The handler does not know which round it leaves open.
  if (code === LEFT_OPEN) return Object.assign(error as Error, leftOpen(pending));
  // The server has had the answer, and says itself what came of it; the round is still kept.
  if (isUndone(error ?? {})) return error;
  // Where the session is gone, so is the round.
  const isOver = error instanceof SessionGoneError;
  if (!isAsking && !isOver) return new NotDeliveredError(pending, error);
  // The handler has failed, or the caller does not want the answer any more. An older round is not ours to end.
  if (isOver || !isResumed) await drop(pending);
  return error;
}

function isTimeout(error: unknown): boolean {
  return saysTimeout((error as { readonly message?: unknown } | undefined)?.message);
}

/** True where the SDKs say that somebody could not wait any longer; they have no code for it. */
export function saysTimeout(reason: unknown): boolean {
  return /timed? ?out/i.test(String(reason));
}

function isAborted(options: unknown): boolean {
  return (options as { readonly signal?: AbortSignal } | undefined)?.signal?.aborted === true;
}
