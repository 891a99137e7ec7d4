import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A message of the client, with the text that it came as. */
export interface Said {
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into messages of every shape
  readonly message: any;
}

/** What a server says to a message: the texts of its own messages, as events or as one JSON body; nothing is a 202. */
export type Script = (said: Said) => readonly string[] | string | undefined;

/** A server that sends exactly the texts it is told to, and keeps exactly the texts it got. */
export async function rawServer(
  script: Script,
  { json = false, capabilities }: { readonly json?: boolean; readonly capabilities?: object } = {},
) {
  const said: Said[] = [];
  const server = createServer(async (request, response) => {
    if (request.method !== 'POST') {
      response.writeHead(405).end();
      return;
    }
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const text = Buffer.concat(chunks).toString();
    const message = JSON.parse(text) as {
      id?: unknown;
      method?: string;
      params?: { protocolVersion?: string };
    };
    const heard = { text, message };
    said.push(heard);
    const answers =
      message.method === 'initialize'
        ? [introduction(message, capabilities)]
        : message.id === undefined
          ? undefined
          : script(heard);
    if (answers === undefined) {
      response.writeHead(202).end();
      return;
    }
    const texts = typeof answers === 'string' ? [answers] : answers;
    if (json || typeof answers === 'string') {
      response.writeHead(200, { 'content-type': 'application/json' }).end(texts.join(''));
      return;
    }
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    for (const one of texts) response.write(`event: message\ndata: ${one}\n\n`);
    response.end();
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`),
    said,
    /** What the client said besides the handshake. */
    heard: () =>
      said.filter(({ message }) => !['initialize', 'notifications/initialized'].includes(message.method)),
    async close() {
      server.closeAllConnections();
      server.close();
    },
  };
}

function introduction(
  { id, params }: { id?: unknown; params?: { protocolVersion?: string } },
  capabilities: object = {},
): string {
  const result = {
    protocolVersion: params?.protocolVersion,
    capabilities: { tools: {}, prompts: {}, ...capabilities },
    serverInfo: { name: 'raw', version: '1' },
  };
  return JSON.stringify({ jsonrpc: '2.0', id, result });
}

/** The answer to a tool call. */
export const result = (id: unknown, words: string): string =>
  JSON.stringify({ jsonrpc: '2.0', id, result: { content: [{ type: 'text', text: words }] } });
