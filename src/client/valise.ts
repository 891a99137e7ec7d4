import type { TransportLike } from '../link/transport.ts';
import type { Result } from '../wire/index.ts';
import { Connection } from './connection.ts';
import type { ClientPart } from './part.ts';
import { targetOf } from './target.ts';

/** A client of either SDK major. */
export interface ClientLike {
  // biome-ignore lint/suspicious/noExplicitAny: the majors' transport and option types differ, and only open parameters accept both
  connect(transport: any, options?: any): Promise<void>;
  getServerCapabilities(): object | undefined;
}

/** Settings of {@link openValise}. */
export interface ClientValiseOptions {
  /** Whose state this is, where one process serves several users. */
  readonly principal?: string;
}

/** What {@link openValise} opens. */
export interface ClientValise {
  /** Connects a client over a transport, with everything that Valise keeps for that server. */
  connect(client: ClientLike, transport: TransportLike): Promise<void>;
}

/** The client's side of Valise. */
export async function openValise({ principal = '' }: ClientValiseOptions = {}): Promise<ClientValise> {
  const owner = {};
  const parts: ClientPart[] = [];
  return {
    async connect(client, transport) {
      const connection = new Connection(transport, { owner, target: targetOf(transport), principal, parts });
      await connection.open();
      await client.connect(transport);
      // A v2 client may have asked `server/discover` on a channel of its own.
      if (!connection.server.introduction)
        connection.server.introduce({ capabilities: client.getServerCapabilities() } as Result);
    },
  };
}
