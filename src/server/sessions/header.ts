import { isObject } from '../../json.ts';
import { NAMES } from '../../wire/index.ts';
import type { Exchange } from '../exchange.ts';

/**
 * True where the HTTP header names another session than the message: a gateway may have looked at one, and we would
 * use the other. If the transport has a session of its own, `Mcp-Session-Id` is about that one; on 2026-07-28 only the
 * drafts' spelling gives it a meaning.
 */
export function headerDisagrees(
  { extra, era, spelling, transportSession }: Exchange,
  sessionId: string,
): boolean {
  if (!isObject(extra)) return false;
  const own = headerOf(extra, NAMES.modern.header.session);
  if (own !== undefined && own !== sessionId) return true;
  if (transportSession !== undefined || (era === 'modern' && spelling.sessions === 'modern')) return false;
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
