import { ValiseError } from '../core/errors.ts';

/** The error for requests that are still waiting when the connection closes. */
export const CONNECTION_CLOSED = {
  code: -32_000,
  message: 'The connection closed before the answer came. Connect again.',
} as const;

/** Thrown when the server answers one of Valise's own requests with an error. */
export class RequestError extends ValiseError {
  readonly rpcCode: number;
  readonly data: unknown;

  constructor(
    method: string,
    { code, message, data }: { readonly code: number; readonly message: string; readonly data?: unknown },
  ) {
    const said = message.endsWith('.') ? message : `${message}.`;
    super('request-failed', `The server answered ${method} with error ${code}: ${said}`);
    this.rpcCode = code;
    this.data = data;
  }
}

/** Returns the error for a Valise that has been closed. */
export function closedError(): ValiseError {
  return new ValiseError('closed', 'This Valise has been closed.', {
    next: 'Close it last, or open another one with openValise().',
  });
}
