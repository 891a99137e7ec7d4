import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { serve } from '@hono/node-server';
import { Client } from '@modelcontextprotocol/client';
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server';
import { LeaveOpen, openValise } from 'mcp-valise/client';
import { createValise, type ServerValise, type ServerValiseOptions } from 'mcp-valise/server';
import { z } from 'zod';

/** A server with its operator's console mounted, in this process. */
export interface Operated {
  readonly origin: string;
  readonly url: string;
  close(): Promise<void>;
}

/** Serves a shop with stored sessions and flows. The console is mounted at `/operator/`, for whoever is `Bearer admin`. */
export async function serveOperated(
  options: Partial<ServerValiseOptions>,
  operatorOptions?: Parameters<ServerValise['console']>[0],
): Promise<Operated> {
  const valise = createValise({
    name: 'shop',
    principal: (_, extra) => {
      const subject = (extra as { request?: Request } | undefined)?.request?.headers.get('x-user');
      return subject ? { subject } : undefined;
    },
    sessions: { mode: 'stored', maxPerPrincipal: 5 },
    flows: { mode: 'stored' },
    ...options,
  });
  const operator = valise.console(operatorOptions);
  const build = () => {
    const server = new McpServer({ name: 'shop', version: '1.0.0' });
    server.registerTool('visit', { inputSchema: z.object({}) }, async () => {
      valise.session()?.set('seen', true);
      return { content: [{ type: 'text', text: 'welcome' }] };
    });
    server.registerTool(
      'order',
      { inputSchema: z.object({ item: z.string() }) },
      valise.flow(async ({ item }, flow) => {
        await flow.once('reserve stock', async () => true);
        const answer = await flow.ask('size', {
          message: 'Which size?',
          schema: z.object({ size: z.string() }),
        });
        return { content: [{ type: 'text', text: `${item}: ${JSON.stringify(answer)}` }] };
      }),
    );
    return server;
  };
  const handler = valise.http(createMcpHandler(valise.factory(build)).fetch as never) as (
    request: Request,
  ) => Promise<Response>;
  const listening = serve({
    port: 0,
    hostname: '127.0.0.1',
    // The author's own authentication.
    fetch: (request) =>
      !new URL(request.url).pathname.startsWith('/operator/')
        ? handler(request)
        : request.headers.get('authorization') === 'Bearer admin'
          ? operator(request)
          : new Response('no', { status: 401 }),
  });
  if (!listening.listening) await once(listening, 'listening');
  const origin = `http://127.0.0.1:${(listening.address() as AddressInfo).port}`;
  return {
    origin,
    url: `${origin}/mcp`,
    close: async () => {
      (listening as unknown as { closeAllConnections(): void }).closeAllConnections();
      listening.close();
      await valise.close();
    },
  };
}

/** Connects a host of a user, whose questions stay open. */
export async function hostOf(user: string | undefined, url: string, fetch = globalThis.fetch) {
  const host = await openValise({ store: 'memory:', allowLocal: true });
  host.on('warning', () => {});
  const client = new Client(
    { name: 'host', version: '1.0.0' },
    { versionNegotiation: { mode: 'auto' }, capabilities: { elicitation: {} } },
  );
  client.setRequestHandler('elicitation/create', () => {
    throw new LeaveOpen();
  });
  await host.connect(client, url, { fetch, ...(user !== undefined && { headers: { 'x-user': user } }) });
  return {
    host,
    client,
    close: async () => {
      await client.close();
      await host.close();
    },
  };
}
