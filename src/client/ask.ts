import type { HttpHints } from '../link/edge-fetch.ts';
import type { Top } from '../link/top.ts';
import type { Request, Response } from '../wire/message.ts';
import type { Connection } from './connection.ts';

/** A request from the server while the client handles it. */
export class Ask {
  readonly connection: Connection;
  readonly request: Request;
  /** Top-level members that came with it, as JSON text. */
  readonly top: Top | undefined;
  /** The known state of the transport's session when the answer was sent. */
  leftIn: object | undefined;
  /** Hints for the HTTP request that will carry the answer. */
  hints: HttpHints | undefined;
  /** Tries to fix the reason why the answer could not be delivered. Resolves to true if it should be sent once more. */
  retry: ((error: unknown) => Promise<boolean>) | undefined;
  /** Called if the answer could not be delivered. */
  undelivered: ((error: unknown) => void) | undefined;
  readonly #answered: ((response: Response) => Response | undefined)[] = [];

  constructor(connection: Connection, request: Request, top: Top | undefined) {
    this.connection = connection;
    this.request = request;
    this.top = top;
  }

  /**
   * Calls `answered` with the client's response before it is sent. It returns the response to send, or undefined to send nothing.
   */
  whenAnswered(answered: (response: Response) => Response | undefined): void {
    this.#answered.push(answered);
  }

  /** Passes the response through the registered callbacks. */
  answer(response: Response): Response | undefined {
    let current: Response | undefined = response;
    for (const answered of this.#answered) {
      if (current === undefined) break;
      current = answered(current);
    }
    return current;
  }
}
