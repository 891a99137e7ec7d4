import { ValiseError } from './errors.ts';
import type { Message } from './message.ts';

/** The type of a method. Unlike the type of a function, it accepts the parameter types of either SDK major. */
interface Method {
  receive(message: unknown, extra?: unknown): void;
}

/**
 * The part of a transport that both SDK majors share. It is structural, so that Valise depends on neither of them, and
 * uses method syntax, so that the stricter types of either major fit.
 */
export interface TransportLike {
  start(): Promise<void>;
  send(message: unknown, options?: unknown): Promise<void>;
  close(): Promise<void>;
  onclose?: (() => void) | undefined;
  onerror?: ((error: Error) => void) | undefined;
  onmessage?: Method['receive'] | undefined;
  sessionId?: string | undefined;
}

/** Hooks that see each message once, after the transport has parsed it and before the transport prints it. */
export interface Hooks {
  /** Whether the SDK sets its handlers once, before the transport starts, as servers do. */
  readonly setOnce?: boolean;
  /** Returns the message to deliver. Returns undefined to hold it back; the hook may deliver it later. */
  inbound?(message: Message, extra: unknown, instrumented: Instrumented): Message | undefined;
  /** Returns the message to send. Returns undefined if the hook sends it itself or not at all. */
  outbound?(message: Message, options: unknown, instrumented: Instrumented): Message | undefined;
  closed?(instrumented: Instrumented): void;
}

/** A transport whose messages are accessible. */
export interface Instrumented {
  readonly transport: TransportLike;
  /** Passes a message to the SDK as if it had arrived. */
  deliver(message: Message, extra?: unknown): void;
  /** Sends a message without calling the hooks. */
  send(message: Message, options?: unknown): Promise<void>;
}

/** Calls hooks for the messages of a transport; see {@link Instrument}. */
export function instrument(transport: TransportLike, owner: object, hooks: Hooks): Instrumented {
  return new HookedInstrument(transport, owner, hooks);
}

/**
 * This is stored on the message itself, because weak sets of short-lived objects burden the garbage collector. Symbols
 * are never printed.
 */
const SENT = Symbol('valise.sent');

/** The senders of a message. The record names the message, because copies of it carry the record too. */
type Sent = Message & { [SENT]?: { readonly of: Message; readonly by: readonly Instrument[] } };

/**
 * Intercepts the messages of a transport **in place**. The object stays the one that the SDK created, so that
 * `instanceof`, probing and every method unknown to Valise keep working. Several owners compose; each owner attaches
 * once.
 */
export abstract class Instrument implements Instrumented, TapEnd {
  readonly transport: TransportLike;
  readonly #tap: Tap;
  readonly #send: TransportLike['send'];
  /** Transports of SDK v1 call their own `send` again after signing in. Those messages have already been seen. */
  readonly #sendsAgain: boolean;

  /** `setOnce`: whether the SDK sets its handlers once, before the transport starts, as servers do. */
  constructor(transport: TransportLike, owner: object, setOnce: boolean) {
    const depth = claim(transport, owner);
    if (depth === undefined)
      throw new ValiseError('already-connected', 'This transport is attached to this Valise already.', {
        next: 'Attach each transport once, and make a new one for each connection.',
      });
    this.transport = transport;
    this.#send = transport.send;
    this.#sendsAgain = 'finishAuth' in transport && !('_send' in transport);
    this.#tap = setOnce ? new StartTap(transport, this) : new AlwaysTap(transport, depth, this);
    transport.send = (message: Message, options?: unknown) =>
      this.#sendsAgain && isSentBy(message, this)
        ? this.#send.call(this.transport, message, options)
        : this.sending(message, options);
  }

  /** Called for each message of the peer, after the transport has parsed it. */
  abstract receive(message: Message, extra?: unknown): void;

  /** Called for each message of the SDK, before the transport prints it. */
  protected abstract sending(message: Message, options: unknown): Promise<void>;

  /** Called when the transport has closed. */
  abstract ended(): void;

  deliver(message: Message, extra?: unknown): void {
    this.#tap.deliver(message, extra);
  }

  send(message: Message, options?: unknown): Promise<void> {
    if (this.#sendsAgain) mark(message, this);
    return this.#send.call(this.transport, message, options);
  }
}

class HookedInstrument extends Instrument {
  readonly #hooks: Hooks;

  constructor(transport: TransportLike, owner: object, hooks: Hooks) {
    super(transport, owner, hooks.setOnce === true);
    this.#hooks = hooks;
  }

  receive(message: Message, extra?: unknown): void {
    const passed = this.#hooks.inbound ? this.#hooks.inbound(message, extra, this) : message;
    if (passed) this.deliver(passed, extra);
  }

  protected sending(message: Message, options: unknown): Promise<void> {
    const out = this.#hooks.outbound ? this.#hooks.outbound(message, options, this) : message;
    return out ? this.send(out, options) : Promise.resolve();
  }

  ended(): void {
    this.#hooks.closed?.(this);
  }
}

function isSentBy(message: Sent, sender: Instrument): boolean {
  const mark = message[SENT];
  return mark?.of === message && mark.by.includes(sender);
}

/** Marks a message as sent. A replacement made by a hook counts as sent by the outer owners too. */
function mark(message: Sent, sender: Instrument): void {
  message[SENT] = { of: message, by: [...(message[SENT]?.by ?? []), sender] };
}

/** Sits between a transport and the handlers that are set on it. */
interface Tap {
  /** Passes a message to the current handler. */
  deliver(message: Message, extra?: unknown): void;
}

/** The receiver of a tap. */
interface TapEnd {
  receive(message: Message, extra?: unknown): void;
  ended(): void;
}

const OWNERS = Symbol('valise.owners');

/** Records that `owner` taps a transport. Returns how many others already do, or undefined if `owner` is one of them. */
function claim(transport: TransportLike, owner: object): number | undefined {
  const tapped = transport as TransportLike & { [OWNERS]?: object[] };
  const owners = tapped[OWNERS];
  if (!owners) tapped[OWNERS] = [owner];
  else if (owners.includes(owner)) return undefined;
  else owners.push(owner);
  return owners ? owners.length - 1 : 0;
}

/**
 * A tap on the handlers that are set when the transport starts, as those of servers are. It leaves no accessors on the
 * transport: stateless servers create one per request, and accessors would slow down all of them.
 */
class StartTap implements Tap {
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

type OnMessage = TransportLike['onmessage'];
type OnClose = TransportLike['onclose'];

/**
 * A tap that stays in place regardless of who sets the handlers and how often: clients that negotiate do so several
 * times. Transports may define the handlers as accessors that forward to an inner transport; the tap then calls those
 * setters.
 */
class AlwaysTap implements Tap {
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
