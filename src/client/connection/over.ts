import type { MessageLimit } from '../../link/limit.ts';
import type { TransportLike } from '../../link/transport.ts';
import type { Store } from '../../store/types.ts';
import type { Result } from '../../wire/index.ts';
import { Connection, type ConnectionOptions } from '../connection.ts';
import { addStdioEdge } from '../stdio-edge.ts';
import { accountOf } from '../transport-account.ts';

/** The part of an SDK client that connecting it needs. */
interface Connecting {
  connect(transport: unknown): Promise<void>;
  getServerCapabilities(): object | undefined;
}

/** Connects a client over a transport that already exists, such as one of the SDK's. */
export async function connectOver(
  client: Connecting,
  transport: TransportLike,
  settings: Omit<ConnectionOptions, 'account'>,
  { store, limit }: { readonly store: Store; readonly limit: MessageLimit },
): Promise<Connection> {
  addStdioEdge(transport, limit);
  const account = await accountOf(transport, settings, store, limit);
  const connection = new Connection(transport, { ...settings, account });
  await connection.open();
  await client.connect(transport);
  // A v2 client may have sent `server/discover` on its own channel, and its getter omits part of the response.
  if (!connection.server.introduction)
    connection.server.introduce({ capabilities: client.getServerCapabilities() } as Result, false);
  return connection;
}
