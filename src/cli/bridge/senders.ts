import { type Id, isNotification, isRequest, type Message } from '../../wire/index.ts';

/** Through what each request went that the server has not answered yet. The answer is for that, whatever has come since. */
export class Senders<T> {
  readonly #senders = new Map<unknown, T>();

  /** Takes note of a message for the server. */
  note(message: Message, sender: T): void {
    if (isRequest(message)) this.#senders.set(message.id, sender);
    else if (isNotification(message) && message.method === 'notifications/cancelled')
      this.#senders.delete(message.params?.['requestId']);
  }

  has(id: Id): boolean {
    return this.#senders.has(id);
  }

  /** Who is to hear a message of the server: the sender of what it answers, or else `current`. */
  of(message: Message, current: T): T {
    if ('method' in message || !this.#senders.has(message.id)) return current;
    const sender = this.#senders.get(message.id) as T;
    this.#senders.delete(message.id);
    return sender;
  }
}
