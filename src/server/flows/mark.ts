/** Marks the handlers of flows, so that their tools can be told from others. */
export const FLOW: unique symbol = Symbol('valise.flow');

/** Whether a function is the handler of a flow. */
export function isFlow(handler: unknown): boolean {
  return typeof handler === 'function' && FLOW in handler;
}
