import { INPUT_METHODS, isNotification, isRequest, type Message, type Request } from 'mcp-valise/wire';

/** A request that went to the server, and through what. */
export interface Sent<T> {
  readonly request: Request;
  readonly by: T;
}

/** Through what each request went that the server has not answered yet. The answer is for that, whatever has come since. */
export class Senders<T> {
  readonly #sent = new Map<unknown, Sent<T>>();

  /** Takes note of a message for the server. */
  note(message: Message, by: T): void {
    if (isRequest(message)) this.#sent.set(message.id, { request: message, by });
    else if (isNotification(message) && message.method === 'notifications/cancelled')
      this.#sent.delete(message.params?.['requestId']);
  }

  /** The calls under way through one of them in whose course a server may ask. */
  callsBy(by: T): Request[] {
    const calls: Request[] = [];
    for (const { request, by: sender } of this.#sent.values())
      if (sender === by && INPUT_METHODS.includes(request.method)) calls.push(request);
    return calls;
  }

  /** What a message of the server answers, if anything; it is answered then. */
  take(message: Message): Sent<T> | undefined {
    if ('method' in message) return undefined;
    const sent = this.#sent.get(message.id);
    this.#sent.delete(message.id);
    return sent;
  }
}
