import type { Answer, Id, Request, Response } from '../../wire/index.ts';
import type { ServerEventSource } from '../events.ts';
import type { Exchange, ServerLink } from '../exchange.ts';
import { type Brought, readAnswer } from '../flows/continuation.ts';
import { FlowError } from '../flows/errors.ts';
import { noteWaited } from '../flows/input.ts';
import type { Question } from '../flows/question.ts';
import { full } from '../flows/records.ts';
import type { Quota } from '../quota.ts';

/** A question that waits for its answer. */
interface Waiter {
  readonly link: ServerLink;
  finish(outcome: Brought | FlowError): void;
}

/**
 * Asks on the connection of the call, which the answer comes back on: stdio, and HTTP with transport sessions.
 *
 * The handler waits in memory. Nothing has to travel, and the handler runs once.
 */
export class ConnectionCarrier {
  readonly #waiters = new Map<Id, Waiter>();
  readonly #held: Quota;
  readonly #events: ServerEventSource;

  /** Creates the carrier. `held` counts the calls that wait in this process. */
  constructor(held: Quota, events: ServerEventSource) {
    this.#held = held;
    this.#events = events;
  }

  /** Sends a question under an id, and waits for at most `ttl` seconds. */
  ask(exchange: Exchange, question: Question, id: string, ttl: number): Promise<Answer> {
    const { link, signal } = exchange;
    const { key, method, params } = question;
    const request: Request = { jsonrpc: '2.0', id, method, ...(params && { params }) };
    const related = { relatedRequestId: exchange.request.id };
    const taken = this.#held.take(exchange.caller);
    if (typeof taken === 'string') {
      this.#events.emit('rejected', { family: 'flows', what: 'a question', reason: `waiting-${taken}` });
      return Promise.reject(full());
    }
    return new Promise((resolve, reject) => {
      const finish: Waiter['finish'] = (outcome) => {
        if (!this.#waiters.delete(id)) return;
        clearTimeout(timer);
        signal.removeEventListener('abort', aborted);
        taken();
        if (outcome instanceof FlowError) return reject(outcome);
        noteWaited(exchange, outcome.session);
        resolve(outcome.answer);
      };
      const withdraw = (error: FlowError): void => {
        finish(error);
        const cancelled = { requestId: id, reason: error.message };
        link.transport
          .send({ jsonrpc: '2.0', method: 'notifications/cancelled', params: cancelled }, related)
          .catch(() => {});
      };
      const timer = setTimeout(() => withdraw(tooLate(key, ttl)), ttl * 1000);
      const aborted = (): void => {
        if (signal.reason === 'closed')
          finish(new FlowError('ask-cancelled', 'The connection closed while a question was open.'));
        else
          withdraw(
            new FlowError('ask-cancelled', `The call was cancelled while "${key}" was open.`, { key }),
          );
      };
      signal.addEventListener('abort', aborted);
      this.#waiters.set(id, { link, finish });
      link.transport.send(request, related).catch((cause: unknown) => {
        finish(new FlowError('ask-failed', `The question "${key}" could not be sent.`, { key, cause }));
      });
    });
  }

  /** Delivers a response to the question that waits for it on this link. Returns false if there is none. */
  answered(response: Response, link: ServerLink): boolean {
    const waiter =
      response.id === undefined || response.id === null ? undefined : this.#waiters.get(response.id);
    if (!waiter || waiter.link !== link) return false;
    waiter.finish(readAnswer(response));
    return true;
  }
}

function tooLate(key: string, ttl: number): FlowError {
  return new FlowError('timeout', `Nobody answered "${key}" within ${ttl} s.`, {
    key,
    next: 'Give the flow or the question a longer ttl.',
  });
}
