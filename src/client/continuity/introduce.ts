import { CORE, type Meta, type Params, type Result, readAnnounced } from '../../wire/index.ts';
import type { Connection } from '../connection.ts';
import type { Snapshot } from './snapshot.ts';

/**
 * What `initialize` tells the server of this client's families. The server goes by it for as long as the session lasts:
 * to one that was told of no jar, it sends no state.
 */
function announcedIn(initialize: Params): string {
  return JSON.stringify(readAnnounced(initialize['capabilities']));
}

/** What `initialize` tells the server that it may ask of this client. */
function askableIn(initialize: Params): string {
  const capabilities = initialize['capabilities'] as Readonly<Record<string, unknown>> | undefined;
  return JSON.stringify(
    ['elicitation', 'sampling', 'roots', 'tasks'].map((name) => capabilities?.[name] ?? null),
  );
}

/** Whether the server of a session asks of this client what it can be asked, and nothing else. */
export function isAskedRight({ askable }: Snapshot, initialize: Params): boolean {
  return askable === undefined || askable === askableIn(initialize);
}

/** Whether the server of a session knows what this client can do. */
export function isToldOf(snapshot: Snapshot, initialize: Params): boolean {
  const { announced } = snapshot;
  return (
    (announced === undefined || announced === announcedIn(initialize)) && isAskedRight(snapshot, initialize)
  );
}

/** What is kept of an `initialize` result; `asked` are the request's params. */
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

/** What is kept of a `server/discover` result; `asked` is the request's `_meta`. */
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

/** State and sessions in the result's `_meta` were for the process that got it. */
function withoutMeta({ _meta: _, ...result }: Result): Result {
  return result;
}

/**
 * Has the client's getters tell what the server has said in its new `initialize` result: it may be another version of
 * itself. Both majors keep it under the same names, and offer no other way to change it on an open connection.
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
