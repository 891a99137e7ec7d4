import { Client, StreamableHTTPClientTransport, type Transport } from '@modelcontextprotocol/client';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as TransportV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { openValise } from 'mcp-valise/client';

const INFO = { name: 'host', version: '1.0.0' };
const capabilities = { elicitation: { form: {} } };
const answer = async () => ({ action: 'accept' as const, content: { choice: 'M' } });

/** The clients that each framework is used with. */
export const CLIENTS = ['SDK 1', 'SDK 2, 2025-11-25', 'SDK 2, 2026-07-28'] as const;
export type Kind = (typeof CLIENTS)[number];

/** A client as hosts make it, with a user who takes size M. */
function makeClient(kind: Kind): Client {
  if (kind === 'SDK 1') {
    const client = new ClientV1(INFO, { capabilities });
    client.setRequestHandler(ElicitRequestSchema, answer);
    return client as unknown as Client;
  }
  const mode = kind === 'SDK 2, 2026-07-28' ? ({ pin: '2026-07-28' } as const) : 'legacy';
  const client = new Client(INFO, { capabilities, versionNegotiation: { mode } });
  client.setRequestHandler('elicitation/create', answer);
  return client;
}

function makeTransport(kind: Kind, url: URL): Transport {
  return kind === 'SDK 1'
    ? (new TransportV1(url) as unknown as Transport)
    : new StreamableHTTPClientTransport(url);
}

/** Connects one client after the other to a server, and hands each to `use`. */
export async function withStock<T>(kind: Kind, url: URL, use: (client: Client) => Promise<T>): Promise<T> {
  const client = makeClient(kind);
  await client.connect(makeTransport(kind, url));
  try {
    return await use(client);
  } finally {
    await client.close();
  }
}

/** The same with Valise in the client. Two connections on one store: what the jar has must survive the first. */
export async function withValise(
  kind: Kind,
  url: URL,
  ...uses: readonly ((client: Client) => Promise<void>)[]
): Promise<void> {
  const valise = await openValise({ store: 'memory:', allowLocal: true });
  for (const use of uses) {
    const client = makeClient(kind);
    await valise.connect(client, makeTransport(kind, url));
    try {
      await use(client);
    } finally {
      await client.close();
    }
  }
  await valise.close();
}

/** Calls a tool without arguments. Returns its first text, and throws if that is an error. */
export async function call(client: Client, name: string): Promise<string> {
  return (await callBlocks(client, name))[0] ?? '';
}

/** Calls a tool. Returns all its texts, and throws if they are an error. */
export async function callBlocks(client: Client, name: string, args: object = {}): Promise<string[]> {
  const { content, isError } = await client.callTool({ name, arguments: { ...args } });
  const texts = content.map((block) => (block.type === 'text' ? block.text : JSON.stringify(block)));
  if (isError) throw new Error(texts.join('\n'));
  return texts;
}
