/**
 * Goes on to the next middleware, and after the last one to the handler. Called again, it has the request handled once more.
 * Rejects with {@link NO_RESPONSE} if there will be none.
 */
export type Next<Response> = () => Promise<Response>;

/** One step around a request and its response. What it does after `await next()` it does to the response. */
export type Middleware<Exchange, Response> = (exchange: Exchange, next: Next<Response>) => Promise<Response>;

/** What `next()` rejects with if nothing is to be sent: the request was cancelled, or its answer takes another way. */
export const NO_RESPONSE = new Error('There is no response to send.');

/** Runs the middlewares of a stack around `handle`, the first one outermost. Without anything to wait for, `handle` is called at once. */
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
