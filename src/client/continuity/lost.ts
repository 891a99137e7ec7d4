import { messageOf, ValiseError } from '../../errors.ts';

/** What servers say, with 400 where they ought to say 404, to a session they do not know or a version they have dropped. */
const NO_SESSION = /session.?id|no valid session|session not found|not initialized/i;
const NO_VERSION = /(unsupported|invalid|unknown).{0,16}protocol.?version/i;

/** Why a session cannot be gone on with. */
export type LostReason = 'session-lost' | 'version';

/** Why a server did not take a call, where a new `initialize` can help; undefined where it cannot. */
export function whyLost(error: unknown, sessionId: string | undefined): LostReason | undefined {
  const status = statusOf(error);
  if (status === 404 && sessionId !== undefined) return 'session-lost';
  if (status !== 400) return undefined;
  const text = (error as Error).message;
  if (NO_VERSION.test(text)) return 'version';
  return NO_SESSION.test(text) ? 'session-lost' : undefined;
}

/** True where a server speaks no version that it is offered, as it says to `initialize` when it knows 2026-07-28 alone. */
export function isOtherVersion(error: unknown): boolean {
  return NO_VERSION.test(messageOf(error));
}

/** The server speaks another era by now, and the SDKs' clients cannot change theirs while they are connected. */
export function versionGoneError(protocolVersion: string, cause: unknown): ValiseError {
  return new ValiseError(
    VERSION_GONE,
    `The server does not speak ${protocolVersion} any more, which was agreed on for this connection.`,
    { next: 'Connect again, with a client that speaks what the server speaks now.', cause },
  );
}

/** The code of {@link versionGoneError}. */
export const VERSION_GONE = 'version-gone';

/** The HTTP status in an error of either major. */
export function statusOf(error: unknown): number | undefined {
  const { code, data } = (error ?? {}) as {
    readonly code?: unknown;
    readonly data?: { readonly status?: unknown };
  };
  if (typeof data?.status === 'number') return data.status;
  return typeof code === 'number' && code >= 100 && code < 600 ? code : undefined;
}
