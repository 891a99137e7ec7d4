import type { HttpHints } from '../link/edge-fetch.ts';
import type { Top } from '../link/top.ts';
import type { Request, Response } from '../wire/message.ts';
import type { Connection } from './connection.ts';

/** A request of the server while the client works on it. */
export class Ask {
  readonly connection: Connection;
  readonly request: Request;
  /** Top-level members that came with it, as text. */
  readonly top: Top | undefined;
  /** What was known of the transport's session when the answer left. */
  leftIn: object | undefined;
  /** What is wanted of the HTTP request that will carry the answer. */
  hints: HttpHints | undefined;
  /** Puts right why the answer could not be delivered, if it can; true where it is to be sent once more. */
  retry: ((error: unknown) => Promise<boolean>) | undefined;
  /** Hears that the answer could not be delivered. */
  undelivered: ((error: unknown) => void) | undefined;
  readonly #answered: ((response: Response) => Response | undefined)[] = [];

  constructor(connection: Connection, request: Request, top: Top | undefined) {
    this.connection = connection;
    this.request = request;
    this.top = top;
  }

  /** Shows the client's response to `answered` before it is sent; `undefined` keeps it. */
  whenAnswered(answered: (response: Response) => Response | undefined): void {
    this.#answered.push(answered);
  }

  /** Runs the response through the steps. */
  answer(response: Response): Response | undefined {
    let current: Response | undefined = response;
    for (const answered of this.#answered) {
      if (current === undefined) break;
      current = answered(current);
    }
    return current;
  }
}
