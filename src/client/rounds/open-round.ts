import { LEFT_OPEN } from './left-open.ts';

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

  constructor() {
    super('The question is left open.');
    this.name = 'LeaveOpen';
  }
}
