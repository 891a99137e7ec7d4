import type { Families } from '../wire/announce.ts';
import type { Notification } from '../wire/message.ts';
import type { Call } from './call.ts';
import type { ClientMiddleware, Connection } from './connection.ts';

/**
 * One feature on the client side. A connection calls its parts in order for outgoing messages and in reverse order for
 * incoming ones. These hooks are the only points where a part sees a message.
 */
export interface ClientPart {
  /** Returns the capabilities of this feature that the client announces to the server. */
  announce?(connection: Connection): Families;
  /** Loads state before anything is sent. */
  opening?(connection: Connection): void | Promise<void>;
  /** Called for a notification from the server. Returns true to hide it from the SDK. */
  notified?(notification: Notification, connection: Connection): boolean;
  /** Called if a call, or an answer during it, could not be delivered. Resolves to true if it should be sent once more. */
  undelivered?(call: Call, error: unknown): Promise<boolean>;
  /** Called when the transport has closed. */
  closed?(connection: Connection): void;
}

/** Sends a call once more if `part` has fixed the reason why it could not be delivered. */
export function sendingAgain(part: Required<Pick<ClientPart, 'undelivered'>>): ClientMiddleware {
  return async (call, next) => {
    try {
      return await next();
    } catch (error) {
      if (error !== call.undelivered || !(await part.undelivered(call, error)) || call.isGivenUp) throw error;
      return next();
    }
  };
}
