import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server';
import { generateKey } from 'mcp-valise/seal';
import { createValise } from 'mcp-valise/server';
import { memoryStore } from 'mcp-valise/store';
import { z } from 'zod';

const text = (words: string) => ({ content: [{ type: 'text' as const, text: words }] });

/** A server with Valise and a store: one tool for each column of the table. */
export async function openServer() {
  const store = memoryStore();
  const valise = createValise({ name: 'hosts', keys: generateKey(), store, sessions: { mode: 'stored' } });
  valise.sessions.require('note');
  const build = () => {
    const server = valise.install(new McpServer({ name: 'hosts', version: '1.0.0' }));
    server.registerTool('count', { description: 'Counts.', inputSchema: z.object({}) }, async () => {
      const { server: state } = valise.jar;
      const count = Number(state.get('count') ?? 0) + 1;
      state.set('count', count);
      return text(`count=${count}`);
    });
    server.registerTool('note', { description: 'Takes a note.', inputSchema: z.object({}) }, async () => {
      const session = valise.session();
      const count = Number(session?.get('notes') ?? 0) + 1;
      session?.set('notes', count);
      return text(`notes=${count}`);
    });
    server.registerTool(
      'greet',
      { description: 'Greets the user.', inputSchema: z.object({}) },
      valise.flow(async (_, flow) => {
        const { name } = await flow.ask('name', {
          message: 'What is your name?',
          schema: z.object({ name: z.string() }),
        });
        return text(`hello=${name}`);
      }),
    );
    return server;
  };
  const handler = createMcpHandler(build, { legacy: 'stateless' });
  const listener = toNodeHandler(valise.http(handler));
  const http = createServer((request, response) => void listener(request, response)).listen(0, '127.0.0.1');
  await once(http, 'listening');
  return {
    url: `http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp`,
    async close() {
      http.closeAllConnections();
      http.close();
      await handler.close();
      await valise.close();
    },
  };
}
