import type { TransportLike } from '../../../link/transport.ts';
import type { Notification } from '../../../wire/index.ts';

/**
 * Hides a notification from the v2 SDK's stdio entry until it is serialized.
 *
 * That entry routes change notifications of the newer era to its own subscriptions, and drops those that nobody subscribed to
 * in its way. Our listeners subscribe in another way.
 */
export function unrouted(notification: Notification, transport: TransportLike): Notification {
  if (!('_outboundIntercept' in transport)) return notification;
  const disguised = { ...notification, listener: true };
  Object.defineProperty(disguised, 'toJSON', { enumerable: false, value: () => notification });
  return disguised;
}
