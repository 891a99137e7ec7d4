import { type Id, isNotification, isRequest, type Message, type Request } from 'mcp-valise/wire';
import { SUBSCRIPTION_ID } from './newer-shapes.ts';

/** What the host has asked and waits for. */
export class Waiting {
  readonly #requests = new Map<unknown, Request>();
  /** Those that were sent once more, and that the server has not taken since. */
  readonly #again = new Set<unknown>();

  /** Takes note of a message of the host. */
  asked(message: Message): void {
    if (isRequest(message)) this.#requests.set(message.id, message);
    else if (isNotification(message) && message.method === 'notifications/cancelled')
      this.#forget(message.params?.['requestId']);
  }

  /** Takes note of a message for the host. */
  heard(message: Message): void {
    if (!('method' in message)) this.#forget(message.id);
    else if (message.method === 'notifications/subscriptions/acknowledged')
      this.#again.delete(message.params?._meta?.[SUBSCRIPTION_ID]);
  }

  get(id: Id | undefined): Request | undefined {
    return this.#requests.get(id);
  }

  /** True where a request may be sent once more: the host waits for it, and it is the first time. */
  mayGoAgain({ id }: Request): boolean {
    const isFirst = this.#requests.has(id) && !this.#again.has(id);
    if (isFirst) this.#again.add(id);
    return isFirst;
  }

  /** Those that stay open to tell the host something. */
  listeners(): readonly Request[] {
    return [...this.#requests.values()].filter(isListener);
  }

  #forget(id: unknown): void {
    this.#requests.delete(id);
    this.#again.delete(id);
  }
}

/** True for a request by which a host of 2026-07-28 listens. */
export function isListener({ method }: Request): boolean {
  return method === 'subscriptions/listen';
}
