import type { Connection } from '../connection.ts';
import { type IdentityOptions, identify, isIdentity } from '../identity.ts';
import type { JarPart } from '../jar/part.ts';
import type { Shelf } from '../jar/shelf.ts';
import { targetKey } from '../target.ts';
import { fingerprint } from './whose.ts';

/** Has session-scope state live exactly as long as the transport's session, across processes. */
export async function followTransport(
  jar: JarPart,
  connection: Connection,
  sessionId: string | undefined,
): Promise<void> {
  if (sessionId !== undefined) await jar.bindSession(connection, `http:${fingerprint(sessionId)}`);
}

/** Ends the state of a transport's session that no connection is in. */
export async function endTransport(
  shelf: Shelf,
  target: URL,
  sessionId: string,
  options: IdentityOptions,
): Promise<void> {
  const identity = identify({ kind: 'http', url: target }, options);
  if (!isIdentity(identity)) return;
  const seat = shelf.seat(identity);
  await shelf.endSession(seat, `http:${fingerprint(sessionId)}`);
  shelf.leave(seat);
}

/**
 * Has session-scope state stay until it is cleared, where no session of the transport says how long it lives: one
 * session with the target, as curl has with its cookie jar.
 */
export async function followTarget(jar: JarPart, connection: Connection): Promise<void> {
  const { target, link } = connection;
  if (link.transport.sessionId === undefined && target.kind !== 'unknown')
    await jar.bindSession(connection, `kept:${fingerprint(targetKey(target))}`);
}
