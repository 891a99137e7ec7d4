import { ValiseError } from '../errors.ts';
import type { Message } from '../wire/message.ts';
import { claim, type Tap, type TapEnd } from './tap.ts';
import { AlwaysTap } from './tap-always.ts';
import { StartTap } from './tap-at-start.ts';
import type { TransportLike } from './transport.ts';

/** The result of an inbound hook: the message, nothing, or the message to be delivered inside `run` (an async context). */
export type Passage = Message | undefined | { readonly message: Message; run(deliver: () => void): void };

/** The result of an outbound hook: the message, nothing, or the message, or another one instead, to be sent inside `run`. */
export type Dispatch =
  | Message
  | undefined
  | { readonly message: Message; run(send: (other?: Message) => Promise<void>): Promise<void> };

/** Hooks that see each message once, after the transport has parsed it and before the transport prints it. */
export interface Hooks {
  /** Whether the SDK sets its handlers once, before the transport starts, as servers do. */
  readonly setOnce?: boolean;
  /** Return the message to let it pass, or `undefined` to hold it back. Return a promise only if waiting is necessary. */
  inbound?(message: Message, extra: unknown, link: Link): Passage | Promise<Passage>;
  outbound?(message: Message, options: unknown, link: Link): Dispatch | Promise<Dispatch>;
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
  #waiting: Set<Promise<void>> | undefined;

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
    // A notification (a cancellation, for example) must not overtake the request that it refers to.
    if (this.#waiting?.size && !('id' in message)) {
      this.#settle(
        Promise.all(this.#waiting).then(() => this.#inbound(message, extra)),
        extra,
      );
      return;
    }
    const passage = this.#inbound(message, extra);
    if (passage instanceof Promise) this.#settle(passage, extra);
    else this.#pass(passage, extra);
  }

  ended(): void {
    this.#hooks.closed?.(this);
  }

  #inbound(message: Message, extra: unknown): Passage | Promise<Passage> {
    return this.#hooks.inbound ? this.#hooks.inbound(message, extra, this) : message;
  }

  #pass(passage: Passage, extra: unknown): void {
    if (passage === undefined) return;
    if ('run' in passage) passage.run(() => this.#tap.deliver(passage.message, extra));
    else this.#tap.deliver(passage, extra);
  }

  #settle(passage: Promise<Passage>, extra: unknown): void {
    this.#waiting ??= new Set();
    const waiting = this.#waiting;
    const done: Promise<void> = passage.then(
      (passed) => {
        waiting.delete(done);
        try {
          this.#pass(passed, extra);
        } catch (error) {
          this.#fail(error);
        }
      },
      (error: unknown) => {
        waiting.delete(done);
        this.#fail(error);
      },
    );
    waiting.add(done);
  }

  #fail(error: unknown): void {
    this.transport.onerror?.(error instanceof Error ? error : new Error(String(error)));
  }

  #dispatch(message: Message, options: unknown): Promise<void> {
    if (this.#sendsAgain && isSentBy(message, this)) return this.#send.call(this.transport, message, options);
    const out = this.#hooks.outbound ? this.#hooks.outbound(message, options, this) : message;
    return out instanceof Promise
      ? out.then((late) => this.#release(late, options))
      : this.#release(out, options);
  }

  #release(out: Dispatch, options: unknown): Promise<void> {
    if (out === undefined) return Promise.resolve();
    if (!('run' in out)) return this.send(out, options);
    return out.run((other = out.message) => this.send(other, options));
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
