import type { Families } from '../wire/announce.ts';
import type { Notification } from '../wire/message.ts';
import type { Ask } from './ask.ts';
import type { Call } from './call.ts';
import type { ClientMiddleware, Connection } from './connection.ts';

/**
 * One family on the client's side. A connection asks its parts in order on the way out and in the opposite order
 * on the way in; each hook is one step of a message's way, and there is no other.
 */
export interface ClientPart {
  /** What this family tells the server that the client can do. */
  announce?(connection: Connection): Families;
  /** Before anything is sent: what must be loaded is loaded here. */
  opening?(connection: Connection): void | Promise<void>;
  /**
   * A request of the server on its way in: register `ask.whenAnswered`. A promise only where the client must not see it
   * yet; false: it need not see it any more.
   */
  asked?(ask: Ask): Promise<boolean> | undefined;
  /** A notification of the server; true keeps it from the SDK. */
  notified?(notification: Notification, connection: Connection): boolean;
  /** A notification of the client on its way out; true keeps it from the server. */
  notifying?(notification: Notification, connection: Connection): boolean;
  /** A call, or an answer in its course, could not be delivered; true where the reason is gone and it is to be sent once more. */
  undelivered?(call: Call, error: unknown): Promise<boolean>;
  /** The transport has closed. */
  closed?(connection: Connection): void;
}

/** Sends a call once more if `part` has put right why it could not be delivered. */
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

/** Shows a request of the server to the parts, in order. A promise only where one of them must be waited for. */
export function askParts(parts: readonly ClientPart[], ask: Ask): Promise<boolean> | undefined {
  let waits: Promise<boolean>[] | undefined;
  for (const part of parts) {
    const step = part.asked?.(ask);
    if (step) (waits ??= []).push(step);
  }
  return waits && Promise.all(waits).then((wanted) => wanted.every(Boolean));
}
