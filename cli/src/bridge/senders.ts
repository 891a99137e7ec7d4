import { INPUT_METHODS, isNotification, isRequest, type Message, type Request } from 'mcp-valise/wire';

/** A request that was sent to the server, and its sender. */
export interface Sent<T> {
  readonly request: Request;
  readonly by: T;
}

/** The sender of each unanswered request. A response goes to that sender, even if it has been replaced since. */
export class Senders<T> {
  readonly #sent = new Map<unknown, Sent<T>>();

  /** Records a message for the server. */
  note(message: Message, by: T): void {
    if (isRequest(message)) this.#sent.set(message.id, { request: message, by });
    else if (isNotification(message) && message.method === 'notifications/cancelled')
      this.#sent.delete(message.params?.['requestId']);
  }

  /** Returns the calls under way from one sender during which a server may ask. */
  callsBy(by: T): Request[] {
    const calls: Request[] = [];
    for (const { request, by: sender } of this.#sent.values())
      if (sender === by && INPUT_METHODS.includes(request.method)) calls.push(request);
    return calls;
  }

  /** Returns and removes the request that a message of the server answers, if any. */
  take(message: Message): Sent<T> | undefined {
    if ('method' in message) return undefined;
    const sent = this.#sent.get(message.id);
    this.#sent.delete(message.id);
    return sent;
  }
}
