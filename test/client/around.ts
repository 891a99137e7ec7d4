import type { Transport } from '@modelcontextprotocol/client';

/** A transport around another, as people write them for logs. */
export class Around {
  readonly #inner: Transport;
  onmessage: ((message: unknown) => void) | undefined;
  onclose: (() => void) | undefined;
  onerror: ((error: Error) => void) | undefined;

  constructor(inner: Transport) {
    this.#inner = inner;
  }

  start(): Promise<void> {
    this.#inner.onmessage = (message) => this.onmessage?.(message);
    this.#inner.onclose = () => this.onclose?.();
    this.#inner.onerror = (error) => this.onerror?.(error);
    return this.#inner.start();
  }

  send(message: never): Promise<void> {
    return this.#inner.send(message);
  }

  close(): Promise<void> {
    return this.#inner.close();
  }
}
