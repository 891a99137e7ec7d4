import { isObject } from '../../json.ts';
import { NAMES } from '../../wire/index.ts';
import type { Exchange } from '../exchange.ts';

/**
 * True where the HTTP header names another session than the message: a gateway may have looked at one, and we would
 * use the other. Where the transport has a session of its own, the older header is about that one.
 */
export function headerDisagrees(exchange: Exchange, sessionId: string): boolean {
  const { extra, transportSession } = exchange;
  if (!isObject(extra)) return false;
  const own = headerOf(extra, NAMES.modern.header.session);
  if (own !== undefined && own !== sessionId) return true;
  if (transportSession !== undefined || exchange.era === 'modern') return false;
  const mirrored = headerOf(extra, NAMES.legacy.header.session);
  return mirrored !== undefined && mirrored !== sessionId;
}

/** A header of the request that a message came with. v1 hands over the headers, v2 the request itself. */
function headerOf({ request, requestInfo }: Record<string, unknown>, name: string): string | undefined {
  const headers = isObject(request)
    ? request['headers']
    : isObject(requestInfo)
      ? requestInfo['headers']
      : undefined;
  if (headers instanceof Headers) return headers.get(name) ?? undefined;
  const value = isObject(headers) ? headers[name.toLowerCase()] : undefined;
  return typeof value === 'string' ? value : undefined;
}
