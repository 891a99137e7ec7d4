import { messageOf, ValiseError } from '../errors.ts';
import type { ErrorResponse, Request } from '../wire/index.ts';

/** What whoever waits for an answer is told where the connection ends first. */
export const CONNECTION_CLOSED = {
  code: -32_000,
  message: 'The connection closed before the answer came. Connect again.',
} as const;

/** The response to a request whose own could not be taken in. */
export function failureOf({ id }: Request, error: unknown): ErrorResponse {
  return { jsonrpc: '2.0', id, error: { code: -32_000, message: messageOf(error) } };
}

/** What the server of a connection answered with an error. */
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
