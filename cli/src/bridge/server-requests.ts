import type { Id, Message, Params, Response } from 'mcp-valise/wire';

/** How a request of the bridge ended; `failure` is the reason if it could not be delivered. */
export interface Answered {
  readonly response: Response;
  readonly failure: unknown;
}

/** The bridge's own requests, which the host never sees. */
export class ServerRequests {
  readonly #toServer: (message: Message) => Promise<void>;
  readonly #open = new Map<Id, (answered: Answered) => void>();
  readonly #name: string;
  #count = 0;

  /** `name` prefixes the ids, so that no two senders share one. */
  constructor(name: string, toServer: (message: Message) => Promise<void>) {
    this.#name = name;
    this.#toServer = toServer;
  }

  /** Sends a request to the server and waits for the response. */
  send(method: string, params: Params): Promise<Answered> {
    const id = `${this.#name}:${++this.#count}`;
    return new Promise((resolve) => {
      this.#open.set(id, resolve);
      void this.#toServer({ jsonrpc: '2.0', id, method, params });
    });
  }

  /** Whether the message answers one of these requests. */
  answered(message: Message, failure: unknown): boolean {
    if ('method' in message || message.id === undefined || message.id === null) return false;
    const settle = this.#open.get(message.id);
    if (!settle) return false;
    this.#open.delete(message.id);
    settle({ response: message, failure });
    return true;
  }
}
