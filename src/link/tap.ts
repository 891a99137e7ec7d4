import type { Message } from '../wire/message.ts';
import type { TransportLike } from './transport.ts';

/** Where a tap leads what comes. */
export interface TapEnd {
  receive(message: Message, extra?: unknown): void;
  closed(): void;
}

type OnMessage = TransportLike['onmessage'];
type OnClose = TransportLike['onclose'];

/**
 * Stands between a transport and whoever sets its `onmessage` and `onclose`. The HTTP server transports of both majors
 * define these as accessors that forward to an inner transport: there the accessors' own setters are called.
 */
export class Tap {
  readonly owner: object;
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

  /** `owner` has one tap on a transport at most, and `depth` is where {@link depthFor} says that there is room. */
  constructor(owner: object, transport: TransportLike, depth: number, end: TapEnd) {
    this.owner = owner;
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

  /** Hands a message to the handler that stands there now. */
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

  // Both SDKs chain the handler they find, and what they find is this one: called for the message under way,
  // it is that chaining, and goes to the handler that stood there before.
  readonly #guarded = (message: Message, extra?: unknown): void => {
    if (this.#current !== undefined && message === this.#current) this.#handlerBefore?.(message, extra);
    else this.#end.receive(message, extra);
  };

  // Chained by the SDKs likewise: called from inside itself, it goes on to the handler that stood there before.
  readonly #told = (): void => {
    if (this.#isClosed) {
      const chained = this.#closingBefore;
      this.#closingBefore = undefined;
      chained?.();
      return;
    }
    this.#isClosed = true;
    this.#end.closed();
    this.#closing?.();
  };
}

/** The accessors of all transports' taps at one depth, which find the tap on the transport itself. */
interface Layer {
  readonly key: symbol;
  readonly onmessage: PropertyDescriptor;
  readonly onclose: PropertyDescriptor;
}

const layers: Layer[] = [];

/** How many taps of others a transport has; undefined where `owner` has one already. */
export function depthFor(transport: TransportLike, owner: object): number | undefined {
  for (let depth = 0; ; depth++) {
    const known = layers[depth];
    const tap = known && tapAt(transport, known.key);
    if (!tap) return depth;
    if (tap.owner === owner) return undefined;
  }
}

function tapAt(transport: object, key: symbol): Tap | undefined {
  return (transport as { readonly [key: symbol]: Tap | undefined })[key];
}

// Accessors of its own would make each transport after the first a slow dictionary, in which nothing is found at once;
// and stateless servers make one for each request.
function place(transport: TransportLike, depth: number, tap: Tap): void {
  layers[depth] ??= layer();
  const { key, onmessage, onclose } = layers[depth];
  (transport as TransportLike & { [key: symbol]: unknown })[key] = tap;
  // One by one: it is done for each request of a stateless server, and `defineProperties` takes more than twice as long.
  Object.defineProperty(transport, 'onmessage', onmessage);
  Object.defineProperty(transport, 'onclose', onclose);
}

function layer(): Layer {
  const key = Symbol('valise.tap');
  const tapOf = (transport: object): Tap => tapAt(transport, key) as Tap;
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
