import type { Id, Message, Params, Response } from 'mcp-valise/wire';

/** How a request of the bridge ended; `failure` is why it could not be delivered, where that is the reason. */
export interface Answered {
  readonly response: Response;
  readonly failure: unknown;
}

/** Requests that the bridge makes by itself, and that the host never hears of. */
export class ServerRequests {
  readonly #toServer: (message: Message) => Promise<void>;
  readonly #open = new Map<Id, (answered: Answered) => void>();
  readonly #name: string;
  #count = 0;

  /** `name` begins the ids, so that no two askers have the same. */
  constructor(name: string, toServer: (message: Message) => Promise<void>) {
    this.#name = name;
    this.#toServer = toServer;
  }

  /** Asks the server, and waits for its answer. */
  send(method: string, params: Params): Promise<Answered> {
    const id = `${this.#name}:${++this.#count}`;
    return new Promise((resolve) => {
      this.#open.set(id, resolve);
      void this.#toServer({ jsonrpc: '2.0', id, method, params });
    });
  }

  /** True where the message answers a request of ours. */
  answered(message: Message, failure: unknown): boolean {
    if ('method' in message || message.id === undefined || message.id === null) return false;
    const settle = this.#open.get(message.id);
    if (!settle) return false;
    this.#open.delete(message.id);
    settle({ response: message, failure });
    return true;
  }
}
