import type { ClientLike } from '../../client/index.ts';
import type { TransportLike } from '../../link/transport.ts';
import { type Id, INTERNAL_ERROR, isRequest, type Message, type Response } from '../../wire/index.ts';
import { explain } from '../exit.ts';

/**
 * Stands where an SDK's client would: it hands every message on as it came, also those that nobody here knows.
 * What Valise does, it does on the transport below.
 */
export class Relay implements ClientLike {
  readonly #toHost: (message: Message) => void;
  readonly #open = new Map<Id, string>();
  #transport: (TransportLike & { setProtocolVersion?(version: string): void }) | undefined;
  /** Resolves when the server is gone. */
  readonly closed: Promise<void>;
  #close: () => void = () => {};

  constructor(toHost: (message: Message) => void) {
    this.#toHost = toHost;
    this.closed = new Promise((resolve) => {
      this.#close = resolve;
    });
  }

  async connect(transport: TransportLike): Promise<void> {
    this.#transport = transport;
    transport.onmessage = (message: Message) => this.#arrived(message);
    transport.onclose = () => {
      this.#fail('The server closed the connection.');
      this.#close();
    };
    await transport.start();
  }

  getServerCapabilities(): undefined {
    return undefined;
  }

  /** By this, Valise takes the relay for a client that can speak both eras. */
  getDiscoverResult(): undefined {
    return undefined;
  }

  /** Hands a message of the host on. A request that cannot be delivered is answered with the reason. */
  async send(message: Message): Promise<void> {
    if (isRequest(message)) this.#open.set(message.id, message.method);
    try {
      await this.#transport?.send(message);
    } catch (error) {
      if (!isRequest(message) || !this.#open.delete(message.id)) return;
      this.#toHost({
        jsonrpc: '2.0',
        id: message.id,
        error: { code: INTERNAL_ERROR, message: `valise connect: ${explain(error)}` },
      });
    }
  }

  async close(): Promise<void> {
    await this.#transport?.close();
  }

  #arrived(message: Message): void {
    if (!('method' in message) && message.id !== undefined && message.id !== null) this.#answered(message);
    this.#toHost(message);
  }

  #answered(response: Response): void {
    const method = this.#open.get(response.id as Id);
    this.#open.delete(response.id as Id);
    if (method !== 'initialize' || !('result' in response)) return;
    // Every later request over HTTP names the version that was agreed on.
    const version = response.result['protocolVersion'];
    if (typeof version === 'string') this.#transport?.setProtocolVersion?.(version);
  }

  #fail(reason: string): void {
    for (const id of this.#open.keys())
      this.#toHost({
        jsonrpc: '2.0',
        id,
        error: { code: INTERNAL_ERROR, message: `valise connect: ${reason}` },
      });
    this.#open.clear();
  }
}
