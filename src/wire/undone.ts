import { isObject } from '../json.ts';
import type { RpcError } from './message.ts';
import { NAMES } from './names.ts';

/** Marks the error of a request of which not all could be kept. It may be sent again: what it answers is still open. */
export function undone(error: RpcError): RpcError {
  const data = isObject(error.data) ? error.data : {};
  return { ...error, data: { ...data, [NAMES.modern.undone]: true } };
}

/** True where an error is marked so. */
export function isUndone({ data }: { readonly data?: unknown }): boolean {
  return isObject(data) && data[NAMES.modern.undone] === true;
}
