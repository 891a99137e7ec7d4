import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server';
import { generateKey } from 'mcp-valise/seal';
import { createValise, keepsState, type ServerValiseOptions } from 'mcp-valise/server';
import { memoryStore } from 'mcp-valise/store';
import { z } from 'zod';

const text = (words: string) => ({ content: [{ type: 'text' as const, text: words }] });

/** The user whose token is in the address, which stands for verified auth. */
const byToken: ServerValiseOptions['principal'] = (_, extra) => {
  const { request } = (extra ?? {}) as { request?: Request };
  const subject = request && new URL(request.url).searchParams.get('token');
  return subject ? { subject } : undefined;
};

/** A server with Valise, with or without a store: one tool for each column of the table. */
export async function openServer({ withStore = true } = {}) {
  const valise = createValise({
    name: 'hosts',
    ...(withStore ? { keys: generateKey(), store: memoryStore() } : { keys: 'ephemeral' }),
    sessions: withStore ? { mode: 'stored' } : {},
    principal: byToken,
    events: { warning: () => {} },
  });
  valise.sessions.require('note');
  const build = () => {
    const server = valise.install(new McpServer({ name: 'hosts', version: '1.0.0' }));
    const counter = { description: 'Counts.', inputSchema: z.object({}), _meta: { ...keepsState } };
    server.registerTool('count', counter, async () => {
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
    for (const name of ['greet', 'later'])
      server.registerTool(
        name,
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
