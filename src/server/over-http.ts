import { isObject } from '../json.ts';

/** Whether a message came over HTTP. SDK v1 passes the request as `requestInfo`, v2 as the `Request` itself. */
export function isHttp(extra: unknown): boolean {
  return isObject(extra) && (extra['requestInfo'] !== undefined || extra['request'] !== undefined);
}
