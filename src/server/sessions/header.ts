import { NAMES } from '../../wire/index.ts';
import { headerOf } from '../caller.ts';
import type { Exchange } from '../exchange.ts';

/**
 * Whether the HTTP header names another session than the message.
 *
 * A gateway may have checked one while we would use the other. If the transport has its own session, `Mcp-Session-Id` refers to
 * that one. On 2026-07-28 the header has a meaning only in the drafts' spelling.
 */
export function headerDisagrees(
  { extra, era, spelling, transportSession }: Exchange,
  sessionId: string,
): boolean {
  const own = headerOf(extra, NAMES.modern.header.session);
  if (own !== undefined && own !== sessionId) return true;
  if (transportSession !== undefined || (era === 'modern' && spelling.sessions === 'modern')) return false;
  const mirrored = headerOf(extra, NAMES.legacy.header.session);
  return mirrored !== undefined && mirrored !== sessionId;
}
