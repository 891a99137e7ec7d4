import type { Families } from '../wire/announce.ts';
import type { Notification } from '../wire/message.ts';
import type { Ask } from './ask.ts';
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
  /**
   * Called for a request from the server; register `ask.whenAnswered` here. Returns a promise only if the client must not
   * see the request yet. The promise resolves to false if the client no longer needs to see it.
   */
  asked?(ask: Ask): Promise<boolean> | undefined;
  /** Called for a notification from the server. Returns true to hide it from the SDK. */
  notified?(notification: Notification, connection: Connection): boolean;
  /** Called for an outgoing notification of the client. Returns true to keep it from the server. */
  notifying?(notification: Notification, connection: Connection): boolean;
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

/** Passes a server request to the parts, in order. Returns a promise only if one of them has to be awaited. */
export function askParts(parts: readonly ClientPart[], ask: Ask): Promise<boolean> | undefined {
  let waits: Promise<boolean>[] | undefined;
  for (const part of parts) {
    const step = part.asked?.(ask);
    if (step) (waits ??= []).push(step);
  }
  return waits && Promise.all(waits).then((wanted) => wanted.every(Boolean));
}
