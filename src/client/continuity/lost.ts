import { messageOf, ValiseError } from '../../errors.ts';

/** The texts of servers that return 400 instead of 404 for an unknown session, or for a protocol version they have dropped. */
const NO_SESSION = /session.?id|no valid session|session not found|not initialized/i;
const NO_VERSION = /(unsupported|invalid|unknown).{0,16}protocol.?version/i;

/** Why the session could not be resumed. */
export type LostReason = 'session-lost' | 'version';

/** Returns why a server rejected a call, if a new `initialize` can help. Returns undefined if it cannot. */
export function whyLost(error: unknown, sessionId: string | undefined): LostReason | undefined {
  const status = statusOf(error);
  if (status === 404 && sessionId !== undefined) return 'session-lost';
  if (status !== 400) return undefined;
  const text = (error as Error).message;
  if (NO_VERSION.test(text)) return 'version';
  return NO_SESSION.test(text) ? 'session-lost' : undefined;
}

/** Whether a server rejects every offered version, as servers that know only 2026-07-28 do for `initialize`. */
export function isOtherVersion(error: unknown): boolean {
  return NO_VERSION.test(messageOf(error));
}

/** Returns the error for a server that has changed its era. The SDKs' clients cannot change theirs while connected. */
export function versionGoneError(protocolVersion: string, cause: unknown): ValiseError {
  return new ValiseError(
    VERSION_GONE,
    `The server does not speak ${protocolVersion} any more, which was agreed on for this connection.`,
    { next: 'Connect again, with a client that speaks what the server speaks now.', cause },
  );
}

/** The code of {@link versionGoneError}. */
export const VERSION_GONE = 'version-gone';

/** Returns the HTTP status in an error of either SDK major. */
export function statusOf(error: unknown): number | undefined {
  const { code, data } = (error ?? {}) as {
    readonly code?: unknown;
    readonly data?: { readonly status?: unknown };
  };
  if (typeof data?.status === 'number') return data.status;
  return typeof code === 'number' && code >= 100 && code < 600 ? code : undefined;
}
