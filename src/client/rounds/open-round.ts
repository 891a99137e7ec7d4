import { LEFT_OPEN } from './left-open.ts';

/**
 * Leaves the question open if a client's elicitation or sampling handler throws it. The call ends with an error that names
 * the pending round in `data.pending`. The server receives nothing, and `valise.pending` keeps the question until it is
 * answered.
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
