/** The error code with which a handler leaves a question open. It is outside the ranges that JSON-RPC and MCP reserve. */
export const LEFT_OPEN = -31_061;

/** Returns the error of a call whose question was left open. Without an id, the question could not be stored. */
export function leftOpen(id: string | undefined): {
  readonly message: string;
  readonly data: { readonly pending?: string };
} {
  if (id === undefined)
    return { message: 'The question was left open, but could not be kept. Make the call again.', data: {} };
  return {
    message: `The call waits for an answer. Give it with valise.pending.answer(${JSON.stringify(id)}, …).`,
    data: { pending: id },
  };
}
