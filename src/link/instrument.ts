import { ValiseError } from '../errors.ts';
import type { Message } from '../wire/message.ts';
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

/** On the transport itself: stateless servers make one for each request, and weak maps of those keep the collector busy. */
const OWNERS = Symbol('valise.owners');

interface Claimed extends TransportLike {
  [OWNERS]?: object[];
}

/**
 * Reaches the messages of a transport **in place**: the object stays the one that the SDK made, so that `instanceof`,
 * probing and every method that Valise does not know go on working. Several owners compose; one owner attaches once.
 */
export function instrument(transport: TransportLike, owner: object, hooks: Hooks): Link {
  claim(transport, owner);
  const rawSend = transport.send.bind(transport);
  let target: TransportLike['onmessage'];
  const waiting = new Set<Promise<unknown>>();
  // Transports that sign in call their own `send` again afterwards: what they send then has passed the hooks already.
  const sent = 'finishAuth' in transport ? new WeakSet<Message>() : undefined;

  const pass = (passage: Passage, extra: unknown): void => {
    if (passage === undefined) return;
    if ('run' in passage) passage.run(() => target?.(passage.message, extra));
    else target?.(passage, extra);
  };
  const failed = (error: unknown): void =>
    transport.onerror?.(error instanceof Error ? error : new Error(String(error)));
  const settle = (passage: Promise<Passage>, extra: unknown): void => {
    const done: Promise<void> = passage.then(
      (passed) => {
        waiting.delete(done);
        try {
          pass(passed, extra);
        } catch (error) {
          failed(error);
        }
      },
      (error: unknown) => {
        waiting.delete(done);
        failed(error);
      },
    );
    waiting.add(done);
  };
  const receive = (message: Message, extra?: unknown): void => {
    // A notification (a cancellation, say) must not overtake the request that it speaks of.
    if (waiting.size > 0 && !('id' in message)) {
      settle(
        Promise.all(waiting).then(() => hooks.inbound?.(message, extra, link) ?? message),
        extra,
      );
      return;
    }
    const passage = hooks.inbound ? hooks.inbound(message, extra, link) : message;
    if (passage instanceof Promise) settle(passage, extra);
    else pass(passage, extra);
  };
  const release = (message: Message, options: unknown): Promise<void> => {
    sent?.add(message);
    return rawSend(message, options);
  };
  const dispatch = (out: Dispatch, options: unknown): Promise<void> => {
    if (out === undefined) return Promise.resolve();
    return 'run' in out ? out.run((other = out.message) => release(other, options)) : release(out, options);
  };
  const link: Link = { transport, deliver: (message, extra) => target?.(message, extra), send: rawSend };

  transport.send = (message: Message, options?: unknown): Promise<void> => {
    if (sent?.has(message)) return rawSend(message, options);
    const out = hooks.outbound ? hooks.outbound(message, options, link) : message;
    return out instanceof Promise ? out.then((late) => dispatch(late, options)) : dispatch(out, options);
  };
  spliceOnMessage(transport, receive, (handler) => {
    target = handler;
  });
  if (hooks.closed) spliceOnClose(transport, () => hooks.closed?.(link));
  return link;
}

function claim(transport: Claimed, owner: object): void {
  const owners = transport[OWNERS];
  if (!owners) {
    Object.defineProperty(transport, OWNERS, { value: [owner] });
    return;
  }
  if (owners.includes(owner)) {
    throw new ValiseError('already-attached', 'This transport is attached to this Valise already.', {
      next: 'Attach each transport once, and make a new one for each connection.',
    });
  }
  owners.push(owner);
}

type Receive = NonNullable<TransportLike['onmessage']>;

/**
 * Puts `receive` between the transport and whoever sets `onmessage`. The HTTP server transports of both majors define
 * `onmessage` as an accessor that forwards to an inner transport: there the accessor's own setter must be called.
 */
function spliceOnMessage(
  transport: TransportLike,
  receive: Receive,
  aim: (handler: TransportLike['onmessage']) => void,
): void {
  const inherited = findDescriptor(transport, 'onmessage');
  const inner = inherited?.set;
  let handler = transport.onmessage;
  let before: TransportLike['onmessage'];
  let current: unknown;
  // Both SDKs chain the handler they find, and what they find is `guarded`: called for the message under way,
  // it is that chaining, and goes to the handler that stood there before.
  const guarded: Receive = (message, extra) => {
    if (current !== undefined && message === current) before?.(message, extra);
    else receive(message, extra);
  };
  const aimAt = (next: TransportLike['onmessage']): void => {
    before = handler;
    handler = next;
    aim(
      next &&
        ((message, extra) => {
          const outer = current;
          current = message;
          try {
            next(message, extra);
          } finally {
            current = outer;
          }
        }),
    );
    inner?.call(transport, next ? guarded : undefined);
  };
  if (handler) aimAt(handler);
  Object.defineProperty(transport, 'onmessage', {
    configurable: true,
    enumerable: true,
    get: () => (inherited?.get ? inherited.get.call(transport) : handler ? guarded : undefined),
    set: (next: TransportLike['onmessage']) => {
      if (next !== guarded) aimAt(next);
    },
  });
}

function spliceOnClose(transport: TransportLike, closed: () => void): void {
  const inherited = findDescriptor(transport, 'onclose');
  const inner = inherited?.set;
  let handler = transport.onclose;
  let before: TransportLike['onclose'];
  let told = false;
  // Chained by the SDKs as `onmessage` is: called from inside itself, it goes on to the handler that stood there before.
  const both = (): void => {
    if (told) {
      const chained = before;
      before = undefined;
      chained?.();
      return;
    }
    told = true;
    closed();
    handler?.();
  };
  inner?.call(transport, both);
  Object.defineProperty(transport, 'onclose', {
    configurable: true,
    enumerable: true,
    get: () => (inherited?.get ? inherited.get.call(transport) : both),
    set: (next: TransportLike['onclose']) => {
      if (next === both) return;
      before = handler;
      handler = next;
      inner?.call(transport, both);
    },
  });
}

function findDescriptor(object: object, name: string): PropertyDescriptor | undefined {
  for (let at: object | null = object; at; at = Object.getPrototypeOf(at)) {
    const found = Object.getOwnPropertyDescriptor(at, name);
    if (found) return found;
  }
  return undefined;
}
