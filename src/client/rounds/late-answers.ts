import { ValiseError } from '../../errors.ts';
import type { Id, Response } from '../../wire/index.ts';
import type { Connection } from '../connection.ts';

/** How the response to a call is waited for whose round was answered alone. */
export interface LateOptions {
  /** The call's id on the wire: only that ties its response to who waits. */
  readonly callId: Id;
  /** A server that cannot tell the call from what it got says nothing, so every wait has an end; in seconds. */
  readonly timeout: number;
  /** True while the server's next question is open, which may take its time. */
  readonly isAsking: () => boolean;
}

/** Sends an answer and waits for the response to its call. */
export function sendAndWait(
  connection: Connection,
  send: () => Promise<void>,
  { callId, timeout, isAsking }: LateOptions,
): Promise<Response> {
  return new Promise<Response>((resolve, reject) => {
    const { answer, withdraw } = connection.calls.expect(callId);
    let timer: ReturnType<typeof setTimeout>;
    const fail = (error: unknown): void => {
      clearTimeout(timer);
      withdraw();
      reject(error);
    };
    const watch = (): void => {
      timer = setTimeout(() => (isAsking() ? watch() : fail(tooLate(timeout))), timeout * 1000);
    };
    watch();
    void answer.then((response) => {
      clearTimeout(timer);
      resolve(response);
    });
    send().catch(fail);
  });
}

function tooLate(timeout: number): ValiseError {
  return new ValiseError('request-timeout', `The server did not go on with the call within ${timeout} s.`, {
    next: 'The round stays open: answer it again, or drop it and make the call again.',
  });
}
