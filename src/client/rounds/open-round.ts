/** The code by which a handler's answer says: not now. Outside of what JSON-RPC and MCP reserve. */
export const LEFT_OPEN = -31_061;

/**
 * Thrown in a client's elicitation or sampling handler, leaves the question open: the call ends with an error that
 * names the pending round, nothing is told to the server, and `valise.pending` has the question until it is answered.
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

/** What the caller hears of a call whose question was left open. */
export function leftOpen(id: string): {
  readonly message: string;
  readonly data: { readonly pending: string };
} {
  return {
    message: `The call waits for an answer. Give it with valise.pending.answer(${JSON.stringify(id)}, …).`,
    data: { pending: id },
  };
}
