import type { Message } from '../wire/message.ts';
import type { TransportLike } from './transport.ts';

/** Sits between a transport and the handlers that are set on it. */
export interface Tap {
  /** Passes a message to the current handler. */
  deliver(message: Message, extra?: unknown): void;
}

/** The receiver of a tap. */
export interface TapEnd {
  receive(message: Message, extra?: unknown): void;
  ended(): void;
}

const OWNERS = Symbol('valise.owners');

/** Records that `owner` taps a transport. Returns how many others already do, or undefined if `owner` is one of them. */
export function claim(transport: TransportLike, owner: object): number | undefined {
  const tapped = transport as TransportLike & { [OWNERS]?: object[] };
  const owners = tapped[OWNERS];
  if (!owners) tapped[OWNERS] = [owner];
  else if (owners.includes(owner)) return undefined;
  else owners.push(owner);
  return owners ? owners.length - 1 : 0;
}
