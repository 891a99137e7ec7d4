import { ValiseError } from '../errors.ts';
import type { Message } from '../wire/message.ts';
import { claim, type Tap, type TapEnd } from './tap.ts';
import { AlwaysTap } from './tap-always.ts';
import { StartTap } from './tap-at-start.ts';
import type { TransportLike } from './transport.ts';

/** What an inbound hook lets through: the message, nothing, or the message delivered inside `run` (an async context). */
export type Passage = Message | undefined | { readonly message: Message; run(deliver: () => void): void };

/** What an outbound hook lets go: the message, nothing, or the message, or another in its place, sent inside `run`. */
export type Dispatch =
  | Message
  | undefined
  | { readonly message: Message; run(send: (other?: Message) => Promise<void>): Promise<void> };

/** Hooks that see each message once, after the transport has parsed it and before it prints it. */
export interface Hooks {
  /** True where the SDK sets its handlers once, before the transport starts, as servers do. */
  readonly setOnce?: boolean;
  /** Return the message to let it pass, `undefined` to keep it. A promise only where something must be waited for. */
  inbound?(message: Message, extra: unknown, link: Link): Passage | Promise<Passage>;
  outbound?(message: Message, options: unknown, link: Link): Dispatch | Promise<Dispatch>;
  closed?(link: Link): void;
}

/** A transport whose messages can be reached. */
export interface Link {
  readonly transport: TransportLike;
  /** Hands a message to the SDK as if it had arrived. */
  deliver(message: Message, extra?: unknown): void;
  /** Sends a message past the hooks. */
  send(message: Message, options?: unknown): Promise<void>;
}

/**
 * Reaches the messages of a transport **in place**: the object stays the one that the SDK made, so that `instanceof`,
 * probing and every method that Valise does not know go on working. Several owners compose; one owner attaches once.
 */
export function instrument(transport: TransportLike, owner: object, hooks: Hooks): Link {
  const depth = claim(transport, owner);
  if (depth === undefined) {
    throw new ValiseError('already-attached', 'This transport is attached to this Valise already.', {
      next: 'Attach each transport once, and make a new one for each connection.',
    });
  }
  return new Instrument(transport, depth, hooks);
}

/** On the message itself: weak sets of what lives for one call keep the collector busy. Nobody prints symbols. */
const SENT = Symbol('valise.sent');

/** Who has sent a message. It names the message, since copies of it have it too. */
type Sent = Message & { [SENT]?: { readonly of: Message; readonly by: readonly Instrument[] } };

class Instrument implements Link, TapEnd {
  readonly transport: TransportLike;
  readonly #hooks: Hooks;
  readonly #tap: Tap;
  readonly #send: TransportLike['send'];
  /** Transports of SDK v1 call their own `send` again after signing in: what they send then has passed the hooks already. */
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
    // A notification (a cancellation, say) must not overtake the request that it speaks of.
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

/** What a hook has put in the place of a message is what the owners around it have sent too. */
function mark(message: Sent, sender: Instrument): void {
  message[SENT] = { of: message, by: [...(message[SENT]?.by ?? []), sender] };
}
