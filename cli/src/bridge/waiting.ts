import { type Id, isNotification, isRequest, type Message, type Request } from 'mcp-valise/wire';
import { SUBSCRIPTION_ID } from './newer-shapes.ts';

/** The requests for which the host waits. */
export class Waiting {
  readonly #requests = new Map<unknown, Request>();
  /** Requests that were resent and that the server has not accepted since. */
  readonly #again = new Set<unknown>();

  /** Records a message of the host. */
  asked(message: Message): void {
    if (isRequest(message)) this.#requests.set(message.id, message);
    else if (isNotification(message) && message.method === 'notifications/cancelled')
      this.#forget(message.params?.['requestId']);
  }

  /** Records a message for the host. */
  heard(message: Message): void {
    if (!('method' in message)) this.#forget(message.id);
    else if (message.method === 'notifications/subscriptions/acknowledged')
      this.#again.delete(message.params?._meta?.[SUBSCRIPTION_ID]);
  }

  get(id: Id | undefined): Request | undefined {
    return this.#requests.get(id);
  }

  /** Whether a request may be resent: the host waits for it, and it has not been resent before. */
  mayGoAgain({ id }: Request): boolean {
    const isFirst = this.#requests.has(id) && !this.#again.has(id);
    if (isFirst) this.#again.add(id);
    return isFirst;
  }

  /** Returns the requests that stay open to deliver notifications. */
  listeners(): readonly Request[] {
    return [...this.#requests.values()].filter(isListener);
  }

  #forget(id: unknown): void {
    this.#requests.delete(id);
    this.#again.delete(id);
  }
}

/** Whether a host of 2026-07-28 uses this request to listen. */
export function isListener({ method }: Request): boolean {
  return method === 'subscriptions/listen';
}
