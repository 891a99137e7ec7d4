import { NAMES } from '../../wire/index.ts';
import { headerOf } from '../caller.ts';
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
  const own = headerOf(extra, NAMES.modern.header.session);
  if (own !== undefined && own !== sessionId) return true;
  if (transportSession !== undefined || (era === 'modern' && spelling.sessions === 'modern')) return false;
  const mirrored = headerOf(extra, NAMES.legacy.header.session);
  return mirrored !== undefined && mirrored !== sessionId;
}
