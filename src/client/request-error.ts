import { messageOf, ValiseError } from '../errors.ts';
import type { ErrorResponse, Request } from '../wire/index.ts';

/** The error for requests that are still waiting when the connection closes. */
export const CONNECTION_CLOSED = {
  code: -32_000,
  message: 'The connection closed before the answer came. Connect again.',
} as const;

/** Returns an error response for a request whose own response could not be processed. */
export function failureOf({ id }: Request, error: unknown): ErrorResponse {
  return { jsonrpc: '2.0', id, error: { code: -32_000, message: messageOf(error) } };
}

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
