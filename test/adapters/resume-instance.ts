import { McpServer as ServerV1 } from '@modelcontextprotocol/sdk/server/mcp.js';
import { WebStandardStreamableHTTPServerTransport as TransportV1 } from '@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js';
import {
  McpServer as ServerV2,
  WebStandardStreamableHTTPServerTransport as TransportV2,
} from '@modelcontextprotocol/server';
import { eventStore } from 'mcp-valise/adapters';
import type { Store } from 'mcp-valise/store';

export type Handle = (request: Request) => Promise<Response>;
export type Major = 'v1' | 'v2';

const INFO = { name: 'slow', version: '1.0.0' };
const LOGGING = { capabilities: { logging: {} } };

export const text = (words: string) => ({ content: [{ type: 'text' as const, text: words }] });

/** A transport for a session, and a server behind it whose tool tells of two steps, the second one after the gate. */
export const servers: Record<Major, (session: string, store: Store, gate: Promise<void>) => Promise<Handle>> =
  {
    async v1(session, store, gate) {
      const server = new ServerV1(INFO, LOGGING);
      server.registerTool('slow', {}, async (extra) => {
        const log = (data: string) =>
          extra.sendNotification({ method: 'notifications/message', params: { level: 'info', data } });
        await log('one');
        await gate;
        await log('two');
        return text('done');
      });
      const transport = new TransportV1({
        sessionIdGenerator: () => session,
        eventStore: eventStore(store, { session }),
      });
      await server.connect(transport);
      return (request) => transport.handleRequest(request);
    },
    async v2(session, store, gate) {
      const server = new ServerV2(INFO, LOGGING);
      server.registerTool('slow', {}, async (ctx) => {
        const log = (data: string) =>
          ctx.mcpReq.notify({ method: 'notifications/message', params: { level: 'info', data } });
        await log('one');
        await gate;
        await log('two');
        return text('done');
      });
      const transport = new TransportV2({
        sessionIdGenerator: () => session,
        eventStore: eventStore(store, { session }),
      });
      await server.connect(transport);
      return (request) => transport.handleRequest(request);
    },
  };
