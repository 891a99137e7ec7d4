import { randomBytes } from 'node:crypto';
import { sleep } from '../store/kit/clock.ts';
import {
  isProblem,
  type Response,
  readIdempotency,
  readIdempotencyError,
  writeIdempotency,
} from '../wire/index.ts';
import type { Call } from './call.ts';
import { statusOf } from './connection/errors.ts';
import { isCut } from './connection/streams.ts';
import type { ClientMiddleware } from './connection.ts';

/** The pauses before a call is repeated, in milliseconds. A server that restarts behind a balancer is back within them. */
const PAUSES = [50, 200, 500, 1000, 2000, 4000];

/** Statuses with which a balancer says that it got no answer from the server. */
const UNANSWERED: ReadonlySet<number | undefined> = new Set([502, 503, 504]);

/**
 * Repeats a call whose answer was lost, if the server announces that calls may be repeated.
 *
 * Every call has a key. The server runs a call with the same key once, and refuses to repeat a call of any other tool.
 */
export const repeating: ClientMiddleware = async (call, next) => {
  if (call.method !== 'tools/call' || !call.connection.server.families.idempotency) return next();
  const given = readIdempotency(call.request.params?._meta);
  // An invalid key is the host's mistake, which the server reports.
  if (isProblem(given)) return next();
  const key = given?.key ?? randomBytes(18).toString('base64url');
  let isRepeat = given?.isRepeat ?? false;
  let first: Loss | undefined;
  for (const pause of [...PAUSES, undefined]) {
    call.addMeta('idempotency', writeIdempotency({ key, isRepeat }));
    const { response, error, isLost } = await attempt(call, next);
    const isRefused = response && 'error' in response && readIdempotencyError(response.error);
    const last = first && isRefused === 'not-repeatable' ? first : { response, error };
    // If the server has begun to ask, its question is pending, and the answer can be given again.
    if (!isLost || pause === undefined || call.hasBegun) return outcome(last);
    first ??= { response, error };
    // A cancellation ends the pause. The connection does not send a call that was cancelled.
    await sleep(pause, call.signal);
    // The server may still be working on the id of the earlier attempt.
    call.mark = `~${randomBytes(3).toString('base64url')}`;
    isRepeat = true;
  }
  return outcome(first ?? {});
};

/** The end of an attempt: a response, or an error. */
interface Loss {
  readonly response?: Response | undefined;
  readonly error?: unknown;
}

async function attempt(
  call: Call,
  next: () => Promise<Response>,
): Promise<Loss & { readonly isLost: boolean }> {
  try {
    const response = await next();
    return { response, isLost: 'error' in response && isCut(response.error) };
  } catch (error) {
    return { error, isLost: error === call.undelivered && isUnanswered(error) };
  }
}

function outcome({ response, error }: Loss): Response {
  if (response) return response;
  throw error;
}

/** Whether the connection failed, or a balancer got no answer. By its standard, `fetch` rejects with a TypeError if the network fails. */
function isUnanswered(error: unknown): boolean {
  return error instanceof TypeError || UNANSWERED.has(statusOf(error));
}
