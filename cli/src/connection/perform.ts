import { isAsking } from '../ask/handler.ts';
import type { ConnectOptions } from '../options/options.ts';
import { clean } from '../output/output.ts';
import { pendingIn, tellPending } from '../output/pending.ts';
import { withCommandAdvice } from '../output/session-errors.ts';
import { type Connected, connectTo } from './connect.ts';
import { whileWaiting } from './waiting.ts';

/** Request timeout in milliseconds. It is long because people may take their time to answer a question. */
export const TIMEOUT = 24 * 3600 * 1000;

/** A request and the handling of its result. */
interface Request<Result> {
  work(connected: Connected): Promise<Result>;
  /** Shows the result and returns the exit code. */
  show(result: Result, connected: Connected): Promise<number>;
  /** Called if the request failed and is not pending. */
  failed?(): Promise<void>;
}

/** Connects, makes one request, and shows its result or the question that it waits for. Returns the exit code. */
export async function perform<Result>(
  target: string,
  options: ConnectOptions,
  name: string,
  { work, show, failed }: Request<Result>,
): Promise<number> {
  const connected = await connectTo(target, options);
  try {
    const result = await whileWaiting(
      () => (isAsking(connected.client) ? undefined : `${clean(name)} to answer`),
      () => work(connected),
    );
    return await show(result, connected);
  } catch (error) {
    const round = await pendingIn(error, connected.valise.pending);
    // The request continues later.
    if (round) return tellPending(round, options, { why: error });
    await failed?.();
    throw options.json ? error : withCommandAdvice(error, target);
  } finally {
    await connected.close();
  }
}
