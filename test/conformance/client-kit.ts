import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as TransportV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';

type Transport = StreamableHTTPClientTransport;
type TransportOptions = NonNullable<ConstructorParameters<typeof StreamableHTTPClientTransport>[1]>;
type Capabilities = Record<string, object>;
type Reply = { readonly action: 'accept'; readonly content: Record<string, string | boolean> };

/** What the fixture client needs of an SDK major, where the majors differ. */
export interface ClientKit {
  /** A client; of the newer era where `modern`, which only v2 has. */
  client(capabilities: Capabilities, modern: boolean): Client;
  transport(url: URL, options: TransportOptions): Transport;
  onElicit(client: Client, reply: Reply): void;
  /** Hands over what came back from the page where the user signs in. */
  finishAuth(transport: Transport, callback: URLSearchParams): Promise<void>;
}

const INFO = { name: 'conformance-fixture', version: '1.0.0' };

export const clientKits: Readonly<Record<'v1' | 'v2', ClientKit>> = {
  v1: {
    client: (capabilities) => new ClientV1(INFO, { capabilities }) as unknown as Client,
    transport: (url, options) => new TransportV1(url, options as never) as unknown as Transport,
    onElicit: (client, reply) =>
      (client as unknown as ClientV1).setRequestHandler(ElicitRequestSchema, () => ({ ...reply })),
    finishAuth: (transport, callback) => transport.finishAuth(callback.get('code') ?? ''),
  },
  v2: {
    client: (capabilities, modern) =>
      new Client(INFO, { capabilities, ...(modern && { versionNegotiation: { mode: 'auto' } }) }),
    transport: (url, options) => new StreamableHTTPClientTransport(url, options),
    onElicit: (client, reply) => client.setRequestHandler('elicitation/create', () => ({ ...reply })),
    finishAuth: (transport, callback) => transport.finishAuth(callback),
  },
};
