import { NO_RESPONSE } from '../core/compose.ts';
import { ValiseError } from '../errors.ts';
import { isObject } from '../json.ts';
import type { Id, Response, Result } from '../wire/index.ts';
import type { Call, CallForm } from './call.ts';
import { CONNECTION_CLOSED, RequestError } from './request-error.ts';

/** How a request of our own is sent. */
export interface OwnRequestOptions extends CallForm {
  /**
   * How long its answer may take, in seconds.
   *
   * @defaultValue 60
   */
  readonly timeout?: number;
}

/** The result of a request that Valise itself makes. `cancel` is called if nobody waits for it any longer. */
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
        new ValiseError('request-timeout', `The server did not answer ${method} within ${timeout} s.`, {
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

/** Whether a transport could not read an answer as JSON (`SyntaxError`) or as a message (errors of zod, by either of its names). */
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
 * The server's answer in a failure of HTTP. The newer era says that a method is unknown with a 404 besides, which v2's
 * transport takes for all that was said.
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
    // A page of somebody in between.
  }
  return undefined;
}
