import { LEFT_OPEN, leftOpen } from './left-open.ts';
import { currentCall } from './open-calls.ts';

/**
 * Thrown in a client's elicitation or sampling handler, leaves the question open: the call ends with an error that
 * names the pending round in `data.pending`, nothing is told to the server, and `valise.pending` has the question until
 * it is answered.
 *
 * @example
 * ```ts
 * client.setRequestHandler('elicitation/create', async () => {
 *   throw new LeaveOpen(); // nobody is here to ask
 * });
 * ```
 */
export class LeaveOpen extends Error {
  readonly code = LEFT_OPEN;
  /** The round, where the SDK hands this error to the caller as it is. */
  readonly data?: { readonly pending: string };

  constructor() {
    const pending = currentCall()?.pending;
    super(pending === undefined ? 'The question is left open.' : leftOpen(pending).message);
    this.name = 'LeaveOpen';
    if (pending !== undefined) this.data = { pending };
  }
}
