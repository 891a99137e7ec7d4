import { ValiseError } from '../../errors.ts';
import type { Id, Response } from '../../wire/index.ts';
import type { Connection } from '../connection.ts';

/**
 * Answers to calls whose round was answered alone: only the call's id ties them to who waits. A server that cannot tell
 * the call from what it got says nothing, so every wait has an end.
 */
export class LateAnswers {
  readonly #isAsking: (connection: Connection) => boolean;

  /** `isAsking`: true while the server's next question is open, which may take its time. */
  constructor(isAsking: (connection: Connection) => boolean) {
    this.#isAsking = isAsking;
  }

  /** Sends an answer and waits, at most `timeout` seconds, for the response to its call: by the call's id on the wire. */
  wait(
    connection: Connection,
    callId: Id,
    { timeout, send }: { readonly timeout: number; readonly send: () => Promise<void> },
  ): Promise<Response> {
    return new Promise<Response>((resolve, reject) => {
      const { answer, withdraw } = connection.expect(callId);
      let timer: ReturnType<typeof setTimeout>;
      const fail = (error: unknown): void => {
        clearTimeout(timer);
        withdraw();
        reject(error);
      };
      const watch = (): void => {
        timer = setTimeout(
          () => (this.#isAsking(connection) ? watch() : fail(tooLate(timeout))),
          timeout * 1000,
        );
      };
      watch();
      void answer.then((response) => {
        clearTimeout(timer);
        resolve(response);
      });
      send().catch(fail);
    });
  }
}

function tooLate(timeout: number): ValiseError {
  return new ValiseError('request-timeout', `The server did not go on with the call within ${timeout} s.`, {
    next: 'The round stays open: answer it again, or drop it and make the call again.',
  });
}
