import { ValiseError } from '../errors.ts';
import type { Message } from '../wire/message.ts';
import { claim, type Tap, type TapEnd } from './tap.ts';
import { AlwaysTap } from './tap-always.ts';
import { StartTap } from './tap-at-start.ts';
import type { TransportLike } from './transport.ts';

/** Hooks that see each message once, after the transport has parsed it and before the transport prints it. */
export interface Hooks {
  /** Whether the SDK sets its handlers once, before the transport starts, as servers do. */
  readonly setOnce?: boolean;
  /** Returns the message to deliver. Returns undefined to hold it back; the hook may deliver it later. */
  inbound?(message: Message, extra: unknown, link: Link): Message | undefined;
  /** Returns the message to send. Returns undefined, or a promise, if the hook sends it itself or not at all. */
  outbound?(message: Message, options: unknown, link: Link): Message | undefined | Promise<void>;
  closed?(link: Link): void;
}

/** A transport whose messages are accessible. */
export interface Link {
  readonly transport: TransportLike;
  /** Passes a message to the SDK as if it had arrived. */
  deliver(message: Message, extra?: unknown): void;
  /** Sends a message without calling the hooks. */
  send(message: Message, options?: unknown): Promise<void>;
}

/**
 * Intercepts the messages of a transport **in place**. The object stays the one that the SDK created, so that
 * `instanceof`, probing and every method unknown to Valise keep working. Several owners compose; each owner attaches
 * once.
 */
export function instrument(transport: TransportLike, owner: object, hooks: Hooks): Link {
  const depth = claim(transport, owner);
  if (depth === undefined) {
    throw new ValiseError('already-connected', 'This transport is attached to this Valise already.', {
      next: 'Attach each transport once, and make a new one for each connection.',
    });
  }
  return new Instrument(transport, depth, hooks);
}

/**
 * This is stored on the message itself, because weak sets of short-lived objects burden the garbage collector. Symbols
 * are never printed.
 */
const SENT = Symbol('valise.sent');

/** The senders of a message. The record names the message, because copies of it carry the record too. */
type Sent = Message & { [SENT]?: { readonly of: Message; readonly by: readonly Instrument[] } };

class Instrument implements Link, TapEnd {
  readonly transport: TransportLike;
  readonly #hooks: Hooks;
  readonly #tap: Tap;
  readonly #send: TransportLike['send'];
  /** Transports of SDK v1 call their own `send` again after signing in. Those messages have already passed the hooks. */
  readonly #sendsAgain: boolean;

  constructor(transport: TransportLike, depth: number, hooks: Hooks) {
    this.transport = transport;
    this.#hooks = hooks;
    this.#send = transport.send;
    this.#sendsAgain = 'finishAuth' in transport && !('_send' in transport);
    this.#tap = hooks.setOnce ? new StartTap(transport, this) : new AlwaysTap(transport, depth, this);
    transport.send = (message: Message, options?: unknown) => this.#dispatch(message, options);
  }

  deliver(message: Message, extra?: unknown): void {
    this.#tap.deliver(message, extra);
  }

  send(message: Message, options?: unknown): Promise<void> {
    if (this.#sendsAgain) mark(message, this);
    return this.#send.call(this.transport, message, options);
  }

  receive(message: Message, extra?: unknown): void {
    const passed = this.#hooks.inbound ? this.#hooks.inbound(message, extra, this) : message;
    if (passed) this.#tap.deliver(passed, extra);
  }

  ended(): void {
    this.#hooks.closed?.(this);
  }

  #dispatch(message: Message, options: unknown): Promise<void> {
    if (this.#sendsAgain && isSentBy(message, this)) return this.#send.call(this.transport, message, options);
    const out = this.#hooks.outbound ? this.#hooks.outbound(message, options, this) : message;
    if (out instanceof Promise) return out;
    return out ? this.send(out, options) : Promise.resolve();
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
