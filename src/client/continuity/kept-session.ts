import type { Connection } from '../connection.ts';
import { type IdentityOptions, identify, isIdentity } from '../identity.ts';
import type { JarPart } from '../jar/part.ts';
import type { Shelf } from '../jar/shelf.ts';
import { type Target, targetKey } from '../target.ts';
import { fingerprint } from './whose.ts';

/** Has session-scope state live exactly as long as the transport's session, across processes. */
export async function followTransport(
  jar: JarPart,
  connection: Connection,
  sessionId: string | undefined,
): Promise<void> {
  if (sessionId !== undefined) await jar.bindSession(connection, transportSessionKey(sessionId));
}

/** Ends the state of a transport's session that a connection does not go on in. */
export async function leaveTransport(
  jar: JarPart,
  connection: Connection,
  sessionId: string | undefined,
): Promise<void> {
  if (sessionId !== undefined) await jar.endSession(connection, transportSessionKey(sessionId));
}

/**
 * The user has signed out of a target: ends the state of all sessions with it, the transport's, the kept ones and those
 * of the data layer, and of accounts that cannot be signed in to again. False if there was none.
 */
export async function endTransport(
  shelf: Shelf,
  url: URL,
  { sessionId, sessions, accounts }: SignedOut,
  options: IdentityOptions,
): Promise<boolean> {
  const target: Target = { kind: 'http', url };
  const identity = identify(target, { ...options, allowLocal: true });
  const own = sessionId === undefined ? [] : [transportSessionKey(sessionId)];
  if (!isIdentity(identity)) return false;
  return shelf.signOut(identity.name, [targetSessionKey(target), ...own, ...sessions], accounts);
}

/** What was kept for those who have signed out. */
export interface SignedOut {
  /** The transport's session. */
  readonly sessionId: string | undefined;
  /** The ids of kept sessions. */
  readonly sessions: readonly string[];
  /** Accounts that no later sign-in can have. */
  readonly accounts: readonly string[];
}

/**
 * Has session-scope state stay until it is cleared, where no session of the transport says how long it lives: one
 * session with the target, as curl has with its cookie jar.
 */
export async function followTarget(jar: JarPart, connection: Connection): Promise<void> {
  const { target, link } = connection;
  if (link.transport.sessionId === undefined && target.kind !== 'unknown')
    await jar.bindSession(connection, targetSessionKey(target));
}

function transportSessionKey(sessionId: string): string {
  return `http:${fingerprint(sessionId)}`;
}

function targetSessionKey(target: Target): string {
  return `kept:${fingerprint(targetKey(target))}`;
}
