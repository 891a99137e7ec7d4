import { ValiseError } from '../errors.ts';
import { isObject } from '../json.ts';
import type { Id, Meta, Params, Request, Response, Result } from '../wire/index.ts';
import type { CallForm } from './call.ts';
import { CONNECTION_CLOSED, RequestError } from './request-error.ts';

/** How a request of our own is sent. */
export interface OwnRequestOptions extends CallForm {
  /** How long its answer may take, in seconds (60 unless told). */
  readonly timeout?: number;
}

interface Waiting {
  readonly form: CallForm;
  settle(outcome: Response | Error): void;
}

/** Requests that Valise itself makes, beside the SDK's. */
export class OwnRequests {
  readonly #send: (request: Request) => Promise<void>;
  readonly #envelope: () => Meta | undefined;
  readonly #left: (id: Id) => void;
  readonly #waiting = new Map<Id, Waiting>();
  #count = 0;

  /** `left` hears of a request that nobody waits for any more. */
  constructor(
    send: (request: Request) => Promise<void>,
    envelope: () => Meta | undefined,
    left: (id: Id) => void,
  ) {
    this.#send = send;
    this.#envelope = envelope;
    this.#left = left;
  }

  /** An id that the SDK never uses. */
  newId(): string {
    return `valise:${++this.#count}`;
  }

  /** Sends a request and waits for its result. */
  request(method: string, params: Params, { timeout = 60, ...form }: OwnRequestOptions): Promise<Result> {
    const id = this.newId();
    const envelope = this.#envelope();
    const meta = envelope ? { ...envelope, ...params._meta } : params._meta;
    const request: Request = {
      jsonrpc: '2.0',
      id,
      method,
      params: meta ? { ...params, _meta: meta } : params,
    };
    return new Promise<Result>((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#waiting.delete(id);
        this.#left(id);
        reject(
          new ValiseError('request-timeout', `The server did not answer ${method} within ${timeout} s.`, {
            next: 'Try again, or give a longer timeout.',
          }),
        );
      }, timeout * 1000);
      const settle = (outcome: Response | Error): void => {
        clearTimeout(timer);
        if (outcome instanceof Error) reject(outcome);
        else if ('result' in outcome) resolve(outcome.result);
        else reject(new RequestError(method, outcome.error));
      };
      this.#waiting.set(id, { form, settle });
      this.#send(request).catch((error: unknown) => {
        clearTimeout(timer);
        this.#waiting.delete(id);
        const answer = answerIn(error, id);
        if (answer) reject(new RequestError(method, answer));
        else if (isUnreadable(error)) reject(unreadable(method, error));
        else reject(error instanceof Error ? error : new Error(String(error)));
      });
    });
  }

  /** What else goes out of a request of ours. */
  formOf({ id }: Request): CallForm | undefined {
    return this.#waiting.get(id)?.form;
  }

  /** Ends a request that nothing will come of. */
  giveUp(id: Id, error: Error): void {
    this.#waiting.get(id)?.settle(error);
    this.#waiting.delete(id);
  }

  /** True where the response is to a request of ours. */
  settle(id: Id, response: Response): boolean {
    const waiting = this.#waiting.get(id);
    if (!waiting) return false;
    this.#waiting.delete(id);
    waiting.settle(response);
    return true;
  }

  /** Ends all waiting. */
  closed(): void {
    for (const { settle } of this.#waiting.values()) settle({ jsonrpc: '2.0', error: CONNECTION_CLOSED });
    this.#waiting.clear();
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
