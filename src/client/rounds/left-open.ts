/** The code by which a handler's answer says: not now. Outside of what JSON-RPC and MCP reserve. */
export const LEFT_OPEN = -31_061;

/** What the caller hears of a call whose question was left open. Without an id it could not be kept. */
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
