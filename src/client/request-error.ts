import { ValiseError } from '../errors.ts';

/** What the server of a connection answered with an error. */
export class RequestError extends ValiseError {
  readonly rpcCode: number;
  readonly data: unknown;

  constructor(
    method: string,
    { code, message, data }: { readonly code: number; readonly message: string; readonly data?: unknown },
  ) {
    super('request-failed', `The server answered ${method} with error ${code}: ${message}.`);
    this.rpcCode = code;
    this.data = data;
  }
}
