import { ValiseError } from '../errors.ts';
import { isObject } from '../json.ts';
import type { Top } from '../link/top.ts';
import type { Id, Meta, Params, Request, Response, Result } from '../wire/index.ts';
import { CONNECTION_CLOSED, RequestError } from './request-error.ts';

/** How a request of our own is sent. */
export interface OwnRequestOptions {
  /** How long its answer may take, in seconds (60 unless told). */
  readonly timeout?: number;
  /** Top-level members that go out with it, as text. */
  readonly top?: Top;
}

/** Requests that Valise itself makes, beside the SDK's. */
export class OwnRequests {
  readonly #send: (request: Request) => Promise<void>;
  readonly #envelope: () => Meta | undefined;
  readonly #waiting = new Map<Id, (response: Response) => void>();
  readonly #tops = new WeakMap<Request, Top>();
  #count = 0;

  constructor(send: (request: Request) => Promise<void>, envelope: () => Meta | undefined) {
    this.#send = send;
    this.#envelope = envelope;
  }

  /** An id that the SDK never uses. */
  newId(): string {
    return `valise:${++this.#count}`;
  }

  /** Sends a request and waits for its result. */
  request(method: string, params: Params, { timeout = 60, top }: OwnRequestOptions): Promise<Result> {
    const id = this.newId();
    const envelope = this.#envelope();
    const meta = envelope ? { ...envelope, ...params._meta } : params._meta;
    const request: Request = {
      jsonrpc: '2.0',
      id,
      method,
      params: meta ? { ...params, _meta: meta } : params,
    };
    if (top) this.#tops.set(request, top);
    return new Promise<Result>((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#waiting.delete(id);
        reject(
          new ValiseError('request-timeout', `The server did not answer ${method} within ${timeout} s.`, {
            next: 'Try again, or give a longer timeout.',
          }),
        );
      }, timeout * 1000);
      this.#waiting.set(id, (response) => {
        clearTimeout(timer);
        if ('result' in response) resolve(response.result);
        else reject(new RequestError(method, response.error));
      });
      this.#send(request).catch((error: unknown) => {
        clearTimeout(timer);
        this.#waiting.delete(id);
        const answer = answerIn(error, id);
        if (answer) reject(new RequestError(method, answer));
        else reject(error instanceof Error ? error : new Error(String(error)));
      });
    });
  }

  /** Top-level members of a request of ours. */
  topOf(request: Request): Top | undefined {
    return this.#tops.get(request);
  }

  /** True where the response is to a request of ours. */
  settle(id: Id, response: Response): boolean {
    const settle = this.#waiting.get(id);
    if (!settle) return false;
    this.#waiting.delete(id);
    settle(response);
    return true;
  }

  /** Ends all waiting. */
  closed(): void {
    for (const settle of this.#waiting.values()) settle({ jsonrpc: '2.0', error: CONNECTION_CLOSED });
    this.#waiting.clear();
  }
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
