import { isObject } from '../../json.ts';
import type { Answer, Id, Request, Response } from '../../wire/index.ts';
import type { ServerEventSource } from '../events.ts';
import type { Exchange, ServerLink } from '../exchange.ts';
import type { Quota } from '../quota.ts';
import { FlowError } from './errors.ts';
import { type Brought, noteWaited, readAnswer } from './present-session.ts';
import type { Question } from './question.ts';
import { full } from './records.ts';

/** Options for waiting for a question. */
export interface WaitOptions {
  readonly id: string;
  readonly ttl: number;
}

interface Waiter {
  readonly link: ServerLink;
  settle(brought: Brought | FlowError): void;
}

/** Questions whose answers are waited for in memory, on connections that the client's answers come back to. */
export class Waiting {
  readonly #waiters = new Map<Id, Waiter>();
  readonly #held: Quota;
  readonly #events: ServerEventSource;

  /** Creates the collection. `held` counts the calls that wait in this process. */
  constructor(held: Quota, events: ServerEventSource) {
    this.#held = held;
    this.#events = events;
  }

  /** Sends the question and waits, for at most `ttl` seconds. */
  ask(exchange: Exchange, question: Question, { id, ttl }: WaitOptions): Promise<Answer> {
    const { link, signal } = exchange;
    const { key, method, params } = question;
    const request: Request = { jsonrpc: '2.0', id, method, ...(params && { params }) };
    const related = { relatedRequestId: exchange.request.id };
    const taken = this.#held.take(exchange.caller);
    if (typeof taken === 'string') {
      this.#events.emit('rejected', { family: 'rounds', what: 'a question', reason: `waiting-${taken}` });
      return Promise.reject(full());
    }
    return new Promise((resolve, reject) => {
      const end = (error: FlowError): void => {
        this.#waiters.get(id)?.settle(error);
        const params = { requestId: id, reason: error.message };
        link.transport
          .send({ jsonrpc: '2.0', method: 'notifications/cancelled', params }, related)
          .catch(() => {});
      };
      const timer = setTimeout(() => end(tooLate(key, ttl)), ttl * 1000);
      const aborted = (): void => {
        const closed = 'The connection closed while a question was open.';
        if (signal.reason === 'closed') this.#waiters.get(id)?.settle(new FlowError('ask-cancelled', closed));
        else end(new FlowError('ask-cancelled', `The call was cancelled while "${key}" was open.`, { key }));
      };
      signal.addEventListener('abort', aborted);
      this.#waiters.set(id, {
        link,
        settle: (brought) => {
          clearTimeout(timer);
          signal.removeEventListener('abort', aborted);
          this.#waiters.delete(id);
          taken();
          if (brought instanceof FlowError) return reject(brought);
          noteWaited(exchange, brought.session);
          resolve(brought.answer);
        },
      });
      link.transport.send(request, related).catch((cause: unknown) => {
        const failed = new FlowError('ask-failed', `The question "${key}" could not be sent.`, {
          key,
          cause,
        });
        this.#waiters.get(id)?.settle(failed);
      });
    });
  }

  /** Delivers a response to the question that waits for it on this link. Returns false if there is none. */
  answered(response: Response, link: ServerLink): boolean {
    const waiter =
      response.id === undefined || response.id === null ? undefined : this.#waiters.get(response.id);
    if (!waiter || waiter.link !== link) return false;
    waiter.settle(readAnswer(response));
    return true;
  }
}

function tooLate(key: string, ttl: number): FlowError {
  return new FlowError('timeout', `Nobody answered "${key}" within ${ttl} s.`, {
    key,
    next: 'Give the flow or the question a longer ttl.',
  });
}

/** Returns the signal that ends a call: `extra.signal` in v1, `ctx.mcpReq.signal` in v2. */
export function signalIn(extra: unknown): AbortSignal | undefined {
  if (!isObject(extra)) return undefined;
  const signal = extra['signal'] ?? (isObject(extra['mcpReq']) ? extra['mcpReq']['signal'] : undefined);
  return signal instanceof AbortSignal ? signal : undefined;
}
