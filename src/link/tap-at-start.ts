import type { Message } from '../wire/message.ts';
import type { Tap, TapEnd } from './tap.ts';
import type { TransportLike } from './transport.ts';

/**
 * A tap on the handlers that are set when the transport starts, as those of servers are. It leaves no accessors on the
 * transport: stateless servers create one per request, and accessors would slow down all of them.
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
