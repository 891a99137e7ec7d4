import type { Message } from '../wire/message.ts';
import type { TransportLike } from './transport.ts';

/** Stands between a transport and the handlers that are set on it. */
export interface Tap {
  /** Hands a message to the handler that stands there now. */
  deliver(message: Message, extra?: unknown): void;
}

/** Where a tap leads what comes. */
export interface TapEnd {
  receive(message: Message, extra?: unknown): void;
  ended(): void;
}

const OWNERS = Symbol('valise.owners');

/** Notes that `owner` taps a transport, and tells how many others do so already; undefined where it is one of them. */
export function claim(transport: TransportLike, owner: object): number | undefined {
  const tapped = transport as TransportLike & { [OWNERS]?: object[] };
  const owners = tapped[OWNERS];
  if (!owners) tapped[OWNERS] = [owner];
  else if (owners.includes(owner)) return undefined;
  else owners.push(owner);
  return owners ? owners.length - 1 : 0;
}
