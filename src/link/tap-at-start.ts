import type { Message } from '../wire/message.ts';
import type { Tap, TapEnd } from './tap.ts';
import type { TransportLike } from './transport.ts';

/**
 * A tap on the handlers that stand there when the transport starts, as those of servers do. It leaves no accessors on
 * the transport: stateless servers make one for each request, and accessors would make all of them slow.
 */
export class StartTap implements Tap {
  #handler: TransportLike['onmessage'];
  #isClosed = false;

  constructor(transport: TransportLike, end: TapEnd) {
    const { start } = transport;
    transport.start = () => {
      transport.start = start;
      const { onmessage, onclose } = transport;
      this.#handler = onmessage;
      transport.onmessage = (message: Message, extra?: unknown) => end.receive(message, extra);
      transport.onclose = () => {
        if (!this.#isClosed) end.ended();
        this.#isClosed = true;
        onclose?.();
      };
      return start.call(transport);
    };
  }

  deliver(message: Message, extra?: unknown): void {
    this.#handler?.(message, extra);
  }
}
