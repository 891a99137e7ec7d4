import type { Link } from '../link/instrument.ts';
import type { Top } from '../link/top.ts';
import type { Families } from '../wire/announce.ts';
import type { Notification, Request, Response, Result, RpcError } from '../wire/message.ts';
import type { Exchange } from './exchange.ts';

/** An answer that a part gives in the handler's place. */
export type Reply = { readonly result: Result } | { readonly error: RpcError };

/** Says that a part will send the response itself, when the time has come. */
export interface Later {
  readonly later: true;
}

/**
 * One family on the server's side. An exchange asks the parts in order on the way in and in the opposite order on the
 * way out; each hook is one step of a message's way, and there is no other.
 */
export interface ServerPart {
  /** What this family tells the client that the server can do; asked where it depends on how the client came. */
  readonly families?: Families | ((introduction: Exchange) => Families);
  /**
   * A request has come: build what the handler will need, register `exchange.whenAnswered`, or answer at once.
   * A promise only where something must be waited for: an answer given without waiting keeps its HTTP status. What takes
   * long is for {@link Later}: while a promise is open, no notification of the client gets through.
   */
  receive?(exchange: Exchange): Reply | Later | undefined | Promise<Reply | Later | undefined>;
  /** The server sends a request of its own; `exchange` is the one it works on, if any. */
  asking?(request: Request, exchange: Exchange | undefined): Request;
  /** An answer has come that nobody in this process waits for; true where this part took it. */
  answered?(response: Response, top: Top | undefined, link: Link, extra: unknown): boolean;
  /** A notification of the client has come; the SDK sees it too. */
  notified?(notification: Notification, link: Link): void;
  /** The server sends a notification; `undefined` keeps it back. */
  notifying?(
    notification: Notification,
    exchange: Exchange | undefined,
    link: Link,
  ): Notification | undefined;
  /** A link has closed. */
  closed?(link: Link): void;
}
