/**
 * Calls the next middleware or, after the last one, the handler. Calling it again handles the request again. Rejects
 * with {@link NO_RESPONSE} if there is no response to send.
 */
export type Next<Response> = () => Promise<Response>;

/** A function that wraps a request and its response. Code after `await next()` acts on the response. */
export type Middleware<Exchange, Response> = (exchange: Exchange, next: Next<Response>) => Promise<Response>;

/**
 * The error that `next()` rejects with if nothing is to be sent: the request was cancelled, or its response travels
 * another way.
 */
export const NO_RESPONSE = new Error('There is no response to send.');

/**
 * Runs a stack of middleware around `handle`, the first one outermost. If no middleware awaits before `next()`,
 * `handle` is called synchronously.
 */
export function compose<Exchange, Response>(
  stack: readonly Middleware<Exchange, Response>[],
  exchange: Exchange,
  handle: Next<Response>,
): Promise<Response> {
  const run = (at: number): Promise<Response> => {
    const middleware = stack[at];
    return middleware ? middleware(exchange, () => run(at + 1)) : handle();
  };
  return run(0);
}
