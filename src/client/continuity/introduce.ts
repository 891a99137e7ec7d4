import { CORE, type Meta, type Params, type Result, readAnnounced } from '../../wire/index.ts';
import type { Connection } from '../connection.ts';
import type { Snapshot } from './snapshot.ts';

/**
 * Returns the families that `initialize` announces. The server relies on them for the whole session: it sends no state to a
 * client that did not announce the jar.
 */
function announcedIn(initialize: Params): string {
  return JSON.stringify(readAnnounced(initialize['capabilities']));
}

/** Returns the capabilities in `initialize` that let the server send requests to this client. */
function askableIn(initialize: Params): string {
  const capabilities = initialize['capabilities'] as Readonly<Record<string, unknown>> | undefined;
  return JSON.stringify(
    ['elicitation', 'sampling', 'roots', 'tasks'].map((name) => capabilities?.[name] ?? null),
  );
}

/** Whether the server of a session may ask exactly what this client supports. */
export function isAskedRight({ askable }: Snapshot, initialize: Params): boolean {
  return askable === undefined || askable === askableIn(initialize);
}

/** Whether the server of a session knows what this client supports. */
export function isToldOf(snapshot: Snapshot, initialize: Params): boolean {
  const { announced } = snapshot;
  return (
    (announced === undefined || announced === announcedIn(initialize)) && isAskedRight(snapshot, initialize)
  );
}

/** Returns the snapshot of an `initialize` result. `asked` are the request's params. */
export function initialized(result: Result, sessionId: string | undefined, asked: Params): Snapshot {
  return {
    era: 'legacy',
    introduction: withoutMeta(result),
    protocolVersion: String(result['protocolVersion']),
    announced: announcedIn(asked),
    askable: askableIn(asked),
    savedAt: Date.now(),
    ...(sessionId !== undefined && { sessionId }),
  };
}

/** Returns the snapshot of a `server/discover` result. `asked` is the request's `_meta`. */
export function discovered(result: Result, asked: Meta | undefined): Snapshot {
  const info = result._meta?.[CORE.serverInfo];
  return {
    era: 'modern',
    introduction: {
      ...withoutMeta(result),
      ...(info !== undefined && { _meta: { [CORE.serverInfo]: info } }),
    },
    protocolVersion: String(asked?.[CORE.protocolVersion]),
    savedAt: Date.now(),
  };
}

/** Removes `_meta`: its state and sessions were for the process that received the result. */
function withoutMeta({ _meta: _, ...result }: Result): Result {
  return result;
}

/**
 * Updates the client's getters to the server's new `initialize` result, because the server may have another version now.
 * Both SDK majors use the same field names, and offer no other way to change them on an open connection.
 */
export function introduceAnew(
  client: object,
  connection: Connection,
  { introduction, protocolVersion }: Snapshot,
): void {
  connection.server.introduce(introduction);
  const known: Readonly<Record<string, unknown>> = {
    _serverCapabilities: introduction['capabilities'],
    _serverVersion: introduction['serverInfo'],
    _instructions: introduction['instructions'],
    _negotiatedProtocolVersion: protocolVersion,
  };
  for (const name in known) if (name in client) Object.assign(client, { [name]: known[name] });
}
