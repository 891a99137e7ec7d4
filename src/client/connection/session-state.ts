import type { Connection } from '../connection.ts';
import { type IdentityOptions, identify, isIdentity } from '../identity.ts';
import type { ClientJar } from '../jar/jar.ts';
import type { JarPart } from '../jar/middleware.ts';
import { type Target, targetKey } from '../target.ts';
import { fingerprint } from './key.ts';

/** Binds session-scope state to the lifetime of the transport's session, across processes. */
export async function followTransport(
  jar: JarPart,
  connection: Connection,
  sessionId: string | undefined,
): Promise<void> {
  if (sessionId !== undefined) await jar.bindSession(connection, transportSessionKey(sessionId));
}

/** Ends the state of a transport session that a connection does not resume. */
export async function leaveTransport(
  jar: JarPart,
  connection: Connection,
  sessionId: string | undefined,
): Promise<void> {
  if (sessionId !== undefined) await jar.endSession(connection, transportSessionKey(sessionId));
}

/**
 * Ends the state of all sessions with a target after the user signed out: the transport's, the kept ones and data-layer
 * sessions, and of accounts that cannot be signed in to again. Returns false if there was none.
 */
export async function endTransport(
  jar: ClientJar,
  url: URL,
  { sessionId, sessions, accounts }: SignedOut,
  options: IdentityOptions,
): Promise<boolean> {
  const target: Target = { kind: 'http', url };
  const identity = identify(target, { ...options, allowLocal: true });
  const own = sessionId === undefined ? [] : [transportSessionKey(sessionId)];
  if (!isIdentity(identity)) return false;
  return jar.signOut(identity.name, [targetSessionKey(target), ...own, ...sessions], accounts);
}

/** The stored sessions and accounts of a user who has signed out. */
export interface SignedOut {
  /** The id of the transport's session. */
  readonly sessionId: string | undefined;
  /** The ids of stored sessions. */
  readonly sessions: readonly string[];
  /** Accounts that no later sign-in can have. */
  readonly accounts: readonly string[];
}

/**
 * Keeps session-scope state until it is cleared, if there is no transport session that limits its lifetime. There is then
 * one session with the target, like curl with its cookie jar.
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
