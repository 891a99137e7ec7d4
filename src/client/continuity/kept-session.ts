import type { Connection } from '../connection.ts';
import type { IdentityOptions } from '../identity.ts';
import { endKept, type JarPart } from '../jar/part.ts';
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

/** Ends the state of all sessions with a target that no connection is in: the transport's, and the one that is kept. */
export async function endTransport(
  shelf: Shelf,
  url: URL,
  sessionId: string | undefined,
  options: IdentityOptions,
): Promise<void> {
  const target: Target = { kind: 'http', url };
  const keys = [
    targetSessionKey(target),
    ...(sessionId === undefined ? [] : [transportSessionKey(sessionId)]),
  ];
  for (const key of keys) await endKept(shelf, target, key, options);
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
