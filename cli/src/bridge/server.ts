import type { HostTransport } from 'mcp-valise/client';
import {
  type Id,
  INTERNAL_ERROR,
  isNotification,
  type Message,
  type Notification,
  type Request,
  type Response,
  statusOf,
} from 'mcp-valise/internal';
import { SDK_PACKAGES } from '../connection/sdk.ts';
import { explain } from '../output/exit.ts';
import type { Done, Server } from './translation.ts';

/** Reported if HTTP uses v1 of the SDK. */
export const OLDER_ONLY = `Only v1 of the SDK is installed, which reaches servers of the protocol up to 2025-11-25. For 2026-07-28, run: npm install ${SDK_PACKAGES.client.v2}`;

/** Options of {@link TransportServer}. */
export interface TransportServerOptions {
  /** Receives the messages of the server that are no responses to requests of the bridge. */
  receive(message: Message): void;
  /** Whether the transport supports only the older era, as HTTP with v1 of the SDK does. */
  readonly isOlderOnly: boolean;
}

/** The server at the other end of Valise's transport, which adds everything that the host lacks. */
export class TransportServer implements Server {
  readonly #transport: HostTransport;
  readonly #options: TransportServerOptions;
  readonly #open = new Map<unknown, Done>();
  #isLeft = false;
  /** Resolves when the connection to the server closes. */
  readonly closed: Promise<void>;

  constructor(transport: HostTransport, options: TransportServerOptions) {
    this.#transport = transport;
    this.#options = options;
    transport.onmessage = (message) => this.#received(message as Message);
    this.closed = new Promise((resolve) => {
      transport.onclose = () => {
        const reason = this.#isLeft ? 'The host closed its side.' : 'The server closed the connection.';
        for (const id of [...this.#open.keys()]) this.#fail(id as Id, reason, new Error(reason));
        resolve();
      };
    });
  }

  request(request: Request, done: Done): void {
    this.#open.set(request.id, done);
    this.#transport
      .send(request)
      .catch((error: unknown) => this.#fail(request.id, this.#explain(request, error), error));
  }

  async notify(message: Notification | Response): Promise<void> {
    if (isNotification(message) && message.method === 'notifications/cancelled')
      this.#open.delete(message.params?.['requestId']);
    // Nobody waits for the outcome of a notification or a response.
    await this.#transport.send(message).catch(() => {});
  }

  /** Ends the transport's session, so that the next `initialize` starts a new one. */
  async restart(): Promise<void> {
    // If it cannot be ended, the server ends it on its own.
    await this.#transport.terminateSession().catch(() => {});
    // The next `initialize` negotiates the version again. With an empty string, the transport sends none.
    this.#transport.setProtocolVersion('');
  }

  /** Closes the connection because the host is gone. */
  async close(): Promise<void> {
    this.#isLeft = true;
    await this.#transport.close();
  }

  #received(message: Message): void {
    const done = 'method' in message ? undefined : this.#open.get(message.id);
    if (!done || 'method' in message) this.#options.receive(message);
    else {
      this.#open.delete(message.id);
      done(message);
    }
  }

  #fail(id: Id, reason: string, failure: unknown): void {
    const done = this.#open.get(id);
    this.#open.delete(id);
    const error = { code: INTERNAL_ERROR, message: `valise connect: ${reason}` };
    done?.({ jsonrpc: '2.0', id, error }, failure);
  }

  /** Adds a hint to the error: a server that refuses `initialize` may support only the newer era. */
  #explain({ method }: Request, error: unknown): string {
    const isRefused = this.#options.isOlderOnly && method === 'initialize' && statusOf(error) === 400;
    return isRefused ? `${explain(error)} ${OLDER_ONLY}` : explain(error);
  }
}
