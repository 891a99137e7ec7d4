import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Client, type ClientOptions } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { createMcpHandler, inputRequired, McpServer } from '@modelcontextprotocol/server';
import { expect, onTestFinished } from 'vitest';
import { z } from 'zod';
import { child } from '../child.ts';
import { OLDER_SERVER, olderServer } from './older-server.ts';
import { VALISE } from './valise.ts';

/** For hosts that give up where they are refused. */
export const PINNED = { versionNegotiation: { mode: { pin: '2026-07-28' } } } as const;

/** Where the older server is, by how it is reached. */
export const TARGETS = {
  stdio: async () => `stdio:${process.execPath} ${child(OLDER_SERVER)}`,
  HTTP: async () => (await serve(answerOlder())).url,
};

/** A server over HTTP. */
export interface Served {
  readonly url: string;
  /** Answers from now on in place of what did before, which forgets its sessions; as a server that was started anew. */
  become(answer: Answer): void;
}

type Answer = (request: IncomingMessage, response: ServerResponse) => unknown;

/** Serves on a free port for as long as the test runs. */
export async function serve(first: Answer): Promise<Served> {
  let answer = first;
  const server = createServer((request, response) => {
    // Whoever comes after a restart has no connection from before it.
    response.setHeader('connection', 'close');
    void answer(request, response);
  }).listen(0, '127.0.0.1');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`,
    become(next) {
      answer = next;
      server.closeAllConnections();
    },
  };
}

/** The older server over HTTP, with sessions as the v1 SDK makes them. */
export function answerOlder(): Answer {
  const transports = new Map<string, StreamableHTTPServerTransport>();
  return async (request, response) => {
    const id = request.headers['mcp-session-id'];
    let transport = typeof id === 'string' ? transports.get(id) : undefined;
    if (!transport) {
      const fresh = new StreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        onsessioninitialized: (session) => void transports.set(session, fresh),
      });
      await olderServer().connect(fresh);
      transport = fresh;
    }
    await transport.handleRequest(request, response);
  };
}

/** A server of the v2 SDK that knows nothing but 2026-07-28. */
export function answerNewer(): Answer {
  const build = (): McpServer => {
    const server = new McpServer({ name: 'newer', version: '2.0.0' });
    server.registerTool('add', { inputSchema: z.object({ a: z.number(), b: z.number() }) }, ({ a, b }) => ({
      content: [{ type: 'text', text: `newer: ${a + b}` }],
    }));
    server.registerTool('who', { inputSchema: z.object({}) }, (_, { mcpReq }) => {
      if (mcpReq.inputResponses) return { content: [{ type: 'text', text: 'newer: told' }] };
      const requestedSchema = { type: 'object' as const, properties: { name: { type: 'string' as const } } };
      return inputRequired({
        inputRequests: { name: inputRequired.elicit({ message: 'Who are you?', requestedSchema }) },
      });
    });
    server.registerTool('log', { inputSchema: z.object({}) }, (_, { mcpReq }) => ({
      content: [
        {
          type: 'text',
          text: String((mcpReq.envelope as Record<string, unknown>)['io.modelcontextprotocol/logLevel']),
        },
      ],
    }));
    return server;
  };
  return toNodeHandler(createMcpHandler(build, { legacy: 'reject' })) as Answer;
}

/** The bridge, as a host starts it. */
export function bridge(target: string, era: string): StdioClientTransport {
  const args = [VALISE, 'connect', target, '--store', 'memory:', '--era', era];
  return new StdioClientTransport({ command: process.execPath, args, stderr: 'ignore' });
}

/** A host that gives up where it is refused, and is not. */
export async function pinned(
  target: string,
  options: ClientOptions = {},
  prepare: (client: Client) => void = () => {},
): Promise<Client> {
  const client = new Client({ name: 'host', version: '1.0.0' }, { ...options, ...PINNED });
  prepare(client);
  await client.connect(bridge(target, 'modern'));
  onTestFinished(() => client.close());
  expect(client.getProtocolEra()).toBe('modern');
  return client;
}

/** Calls a tool; its text. */
export async function call(client: Client, name: string, args = {}): Promise<string> {
  const { content } = await client.callTool({ name, arguments: args });
  return (content as { text: string }[])[0]?.text ?? '';
}
