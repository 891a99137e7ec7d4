import type { Connection } from '../connection.ts';
import type { Snapshot } from './snapshot.ts';

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
