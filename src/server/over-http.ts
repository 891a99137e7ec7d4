import { isObject } from '../json.ts';

/** True for a message that came over HTTP. What the SDKs know of the request: v1 as `requestInfo`, v2 as the `Request` itself. */
export function isHttp(extra: unknown): boolean {
  return isObject(extra) && (extra['requestInfo'] !== undefined || extra['request'] !== undefined);
}
