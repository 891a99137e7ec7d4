import { withoutHints } from '../link/edge-fetch.ts';
import type { Id, Message, Request, Response, RpcError } from '../wire/index.ts';
import { Ask } from './ask.ts';
import type { Connection } from './connection.ts';
import { CONNECTION_CLOSED } from './request-error.ts';

const CANCELLED: RpcError = { code: -32_000, message: 'The call was cancelled.' };

/** The requests that the client handles: those of the server, and those that Valise makes on its behalf. */
export class Asks {
  readonly #all = new Map<Id, Ask>();
  /** Functions that end Valise's own requests with an error, by id. */
  readonly #ends = new Map<Id, (why: RpcError) => void>();
  readonly #deliver: (message: Message) => void;

  constructor(deliver: (message: Message) => void) {
    this.#deliver = deliver;
  }

  /** The number of requests in progress. */
  get size(): number {
    return this.#all.size;
  }

  add(ask: Ask): void {
    this.#all.set(ask.request.id, ask);
  }

  /** Removes and returns the request with this id. Returns undefined if there is none. */
  take(id: unknown): Ask | undefined {
    const ask = this.#all.get(id as Id);
    if (ask) this.#all.delete(ask.request.id);
    return ask;
  }

  /** Passes a request to the client's own handlers, as if the server had sent it, and waits for their response. */
  askClient(connection: Connection, request: Request, signal: AbortSignal | undefined): Promise<Response> {
    const { id } = request;
    return new Promise((resolve) => {
      const ask = new Ask(connection, request, undefined);
      const withdraw = (): void => {
        if (this.withdraw(ask)) this.#ends.get(id)?.(CANCELLED);
      };
      const settle = (response: Response): void => {
        this.#ends.delete(id);
        signal?.removeEventListener('abort', withdraw);
        resolve(response);
      };
      this.#ends.set(id, (error) => settle({ jsonrpc: '2.0', id, error }));
      ask.whenAnswered((response) => {
        settle(response);
        return undefined;
      });
      this.add(ask);
      signal?.addEventListener('abort', withdraw, { once: true });
      withoutHints(() => this.#deliver(request));
    });
  }

  /** Tells the client's handler that its answer is no longer needed. Returns false if it has already answered. */
  withdraw({ request: { id } }: Ask): boolean {
    if (!this.#all.delete(id)) return false;
    this.#deliver({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: id } });
    return true;
  }

  closed(): void {
    this.#all.clear();
    for (const end of [...this.#ends.values()]) end(CONNECTION_CLOSED);
  }
}
