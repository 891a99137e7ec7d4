import { NO_RESPONSE } from '../core/compose.ts';
import { ValiseError } from '../core/errors.ts';
import { isObject } from '../core/json.ts';
import type { Id, Response, Result } from '../wire/index.ts';
import type { Call, CallForm } from './call.ts';
import { CONNECTION_CLOSED, RequestError } from './errors.ts';

/** Options for one of Valise's own requests. */
export interface OwnRequestOptions extends CallForm {
  /**
   * The timeout for the response, in seconds.
   *
   * @defaultValue 60
   */
  readonly timeout?: number | undefined;
  /** Called with the request before it is sent. */
  readonly prepare?: ((call: Call) => void) | undefined;
}

/** Returns the result of one of Valise's own requests. Calls `cancel` on a timeout. */
export async function resultOf(
  call: Call,
  running: Promise<Response>,
  timeout: number,
  cancel: () => void,
): Promise<Result> {
  const { method, request } = call;
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      cancel();
      reject(
        new ValiseError('timeout', `The server did not answer ${method} within ${timeout} s.`, {
          next: 'Try again, or give a longer timeout.',
        }),
      );
    }, timeout * 1000);
  });
  try {
    const response = await Promise.race([running, late]);
    if ('result' in response) return response.result;
    throw new RequestError(method, response.error);
  } catch (error) {
    if (error === NO_RESPONSE) throw new RequestError(method, CONNECTION_CLOSED);
    const answer = answerIn(error, request.id);
    if (answer) throw new RequestError(method, answer);
    if (isUnreadable(error)) throw unreadable(method, error);
    throw error instanceof Error ? error : new Error(String(error));
  } finally {
    clearTimeout(timer);
  }
}

/** Whether a transport could not parse a response as JSON (`SyntaxError`) or as a message (a zod error, under either name). */
function isUnreadable(error: unknown): boolean {
  return error instanceof SyntaxError || /^\$?ZodError$/.test((error as Error | undefined)?.name ?? '');
}

function unreadable(method: string, cause: unknown): ValiseError {
  return new ValiseError('request-failed', `The server's answer to ${method} is not a JSON-RPC message.`, {
    next: 'Try again; if it happens again, tell the operator of the server.',
    cause,
  });
}

/**
 * Returns the server's error response inside an HTTP error. The modern era reports an unknown method with a 404 as well,
 * and v2's transport reports only the status.
 */
function answerIn(
  error: unknown,
  id: Id,
): { readonly code: number; readonly message: string; readonly data?: unknown } | undefined {
  const { data } = (error ?? {}) as { readonly data?: { readonly text?: unknown } };
  if (typeof data?.text !== 'string') return undefined;
  try {
    const answer: unknown = JSON.parse(data.text);
    if (!isObject(answer) || answer['id'] !== id || !isObject(answer['error'])) return undefined;
    const { code, message, data: more } = answer['error'];
    if (typeof code === 'number' && typeof message === 'string') return { code, message, data: more };
  } catch {
    // The text is not JSON, such as a proxy's error page.
  }
  return undefined;
}
