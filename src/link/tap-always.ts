import type { Message } from '../wire/message.ts';
import type { Tap, TapEnd } from './tap.ts';
import type { TransportLike } from './transport.ts';

type OnMessage = TransportLike['onmessage'];
type OnClose = TransportLike['onclose'];

/**
 * A tap that stays in place regardless of who sets the handlers and how often: clients that negotiate do so several
 * times. Transports may define the handlers as accessors that forward to an inner transport; the tap then calls those
 * setters.
 */
export class AlwaysTap implements Tap {
  readonly #transport: TransportLike;
  readonly #end: TapEnd;
  readonly #messages: PropertyDescriptor | undefined;
  readonly #closes: PropertyDescriptor | undefined;
  #handler: OnMessage;
  #handlerBefore: OnMessage;
  #current: unknown;
  #closing: OnClose;
  #closingBefore: OnClose;
  #isClosed = false;

  /** `depth` is the number of taps that the transport already has. */
  constructor(transport: TransportLike, depth: number, end: TapEnd) {
    this.#transport = transport;
    this.#end = end;
    this.#messages = findDescriptor(transport, 'onmessage');
    this.#closes = findDescriptor(transport, 'onclose');
    this.#closing = transport.onclose;
    const { onmessage } = transport;
    if (onmessage) this.#aim(onmessage);
    this.#closes?.set?.call(transport, this.#told);
    place(transport, depth, this);
  }

  deliver(message: Message, extra?: unknown): void {
    const handler = this.#handler;
    if (!handler) return;
    const outer = this.#current;
    this.#current = message;
    try {
      handler(message, extra);
    } finally {
      this.#current = outer;
    }
  }

  get onmessage(): OnMessage {
    const inherited = this.#messages?.get;
    if (inherited) return inherited.call(this.#transport) as OnMessage;
    return this.#handler ? this.#guarded : undefined;
  }

  set onmessage(next: OnMessage) {
    if (next === this.#guarded) return;
    this.#handlerBefore = this.#handler;
    this.#aim(next);
  }

  get onclose(): OnClose {
    const inherited = this.#closes?.get;
    return inherited ? (inherited.call(this.#transport) as OnClose) : this.#told;
  }

  set onclose(next: OnClose) {
    if (next === this.#told) return;
    this.#closingBefore = this.#closing;
    this.#closing = next;
    this.#closes?.set?.call(this.#transport, this.#told);
  }

  #aim(next: OnMessage): void {
    this.#handler = next;
    this.#messages?.set?.call(this.#transport, next ? this.#guarded : undefined);
  }

  // Both SDKs chain the handler they find, which is this one. A call for the message being delivered is that chaining,
  // and goes to the previous handler.
  readonly #guarded = (message: Message, extra?: unknown): void => {
    if (this.#current !== undefined && message === this.#current) this.#handlerBefore?.(message, extra);
    else this.#end.receive(message, extra);
  };

  // The SDKs chain this one too. A call from inside itself goes to the previous handler.
  readonly #told = (): void => {
    if (this.#isClosed) {
      const chained = this.#closingBefore;
      this.#closingBefore = undefined;
      chained?.();
      return;
    }
    this.#isClosed = true;
    this.#end.ended();
    this.#closing?.();
  };
}

/** The accessors that the taps of all transports at one depth share. They find the tap on the transport itself. */
interface Layer {
  readonly key: symbol;
  readonly onmessage: PropertyDescriptor;
  readonly onclose: PropertyDescriptor;
}

const layers: Layer[] = [];

// Separate accessors per transport would turn each one after the first into a slow dictionary-mode object.
function place(transport: TransportLike, depth: number, tap: AlwaysTap): void {
  layers[depth] ??= layer();
  const { key, onmessage, onclose } = layers[depth];
  (transport as TransportLike & { [key: symbol]: unknown })[key] = tap;
  Object.defineProperties(transport, { onmessage, onclose });
}

function layer(): Layer {
  const key = Symbol('valise.tap');
  const tapOf = (transport: object) => (transport as { readonly [key: symbol]: AlwaysTap })[key] as AlwaysTap;
  return {
    key,
    onmessage: {
      configurable: true,
      enumerable: true,
      get(): OnMessage {
        return tapOf(this).onmessage;
      },
      set(next: OnMessage) {
        tapOf(this).onmessage = next;
      },
    },
    onclose: {
      configurable: true,
      enumerable: true,
      get(): OnClose {
        return tapOf(this).onclose;
      },
      set(next: OnClose) {
        tapOf(this).onclose = next;
      },
    },
  };
}

function findDescriptor(object: object, name: string): PropertyDescriptor | undefined {
  for (let at: object | null = object; at; at = Object.getPrototypeOf(at)) {
    const found = Object.getOwnPropertyDescriptor(at, name);
    if (found) return found;
  }
  return undefined;
}
