import type { TransportLike } from '../../../link/transport.ts';
import type { Notification } from '../../../wire/index.ts';

/**
 * The v2 SDK's stdio entry hands change notifications of the newer era to its own subscriptions, and drops those that
 * nobody subscribed to in its way. A listener of ours asked in another way: for that entry a notification is made to look
 * like none until it is printed.
 */
export function unrouted(notification: Notification, transport: TransportLike): Notification {
  if (!('_outboundIntercept' in transport)) return notification;
  const disguised = { ...notification, listener: true };
  Object.defineProperty(disguised, 'toJSON', { enumerable: false, value: () => notification });
  return disguised;
}
