import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Client as ClientV2, StreamableHTTPClientTransport as HttpV2 } from '@modelcontextprotocol/client';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as HttpV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { createMcpHandler, type McpServer } from '@modelcontextprotocol/server';
import {
  createValise,
  keepsState,
  type ServerValise,
  type ServerValiseOptions,
  sessionRequired,
} from 'mcp-valise/server';
import { z } from 'zod';
import { MAJORS } from './majors.ts';

export const keys = 'T0aGXc1lJg5o3VtW3bYpW2yZr9s0u1v2w3x4y5z6A7Q';
const text = (words: string) => ({ content: [{ type: 'text' as const, text: words }] });

/** A server of one major and era, with the stock client that goes with it. SDK v1 has only the older era. */
export const WAYS = [
  { way: 'v1, 2025-11-25', major: 0, client: 'v1' },
  { way: 'v2, 2025-11-25', major: 1, client: 'v1' },
  { way: 'v2, 2026-07-28', major: 1, client: 'v2' },
] as const;
export type Way = (typeof WAYS)[number];

/** The tools: a jar, a session, structured output, a strict schema, a flow, and one that keeps nothing. */
export function build(valise: ServerValise, major: Way['major']): McpServer {
  const server = valise.install(new MAJORS[major].McpServer({ name: 'test', version: '1.0.0' }));
  const _meta = { ...keepsState };
  const count = () => {
    const { session } = valise.jar;
    const n = Number(session.get('n') ?? 0) + 1;
    session.set('n', n);
    return n;
  };
  server.registerTool('count', { description: 'Counts.', inputSchema: z.object({}), _meta }, async () =>
    text(`count=${count()}`),
  );
  server.registerTool('total', { inputSchema: z.object({}), _meta }, async () => {
    const { server: lasting } = valise.jar;
    const n = Number(lasting.get('n') ?? 0) + 1;
    lasting.set('n', n);
    return text(`total=${n}`);
  });
  server.registerTool('peek', { inputSchema: z.object({}), _meta }, async () =>
    text(`count=${valise.jar.session.get('n') ?? 0}`),
  );
  server.registerTool(
    'strict',
    {
      inputSchema: z.strictObject({ by: z.number() }),
      outputSchema: z.strictObject({ n: z.number() }),
      _meta,
    },
    async () => {
      const n = count();
      return { ...text(String(n)), structuredContent: { n } };
    },
  );
  server.registerTool('note', { inputSchema: z.object({}), _meta: { ...sessionRequired } }, async () => {
    const session = valise.session();
    const n = Number(session?.get('n') ?? 0) + 1;
    session?.set('n', n);
    return text(`notes=${n}`);
  });
  server.registerTool('plain', { inputSchema: z.object({}) }, async () => text('plain'));
  server.registerTool(
    'greet',
    { inputSchema: z.object({ greeting: z.string().optional() }) },
    valise.flow(async ({ greeting = 'hello' }, flow) => {
      const { name } = await flow.ask('name', {
        message: 'What is your name?',
        schema: z.object({ name: z.string().min(2) }),
      });
      const { size } = await flow.ask('size', {
        message: 'Which size?',
        schema: {
          type: 'object',
          properties: { size: { type: 'string', enum: ['S', 'M'] } },
          required: ['size'],
        },
      });
      return text(`${greeting}=${name},${size}`);
    }),
  );
  server.registerTool(
    'unlock',
    { inputSchema: z.object({}) },
    valise.flow(async (_, flow) => {
      const { code } = await flow.ask('code', {
        message: 'What is the code of the door?',
        schema: z.object({ code: z.string().min(4) }),
        secret: true,
      });
      return text(`unlocked with ${code.length} characters`);
    }),
  );
  server.registerTool(
    'erase',
    { inputSchema: z.object({}), outputSchema: z.object({ erased: z.boolean() }) },
    valise.flow(async (_, flow) => {
      const erased = await flow.confirm('sure', 'Really erase <everything>?');
      return { ...text(String(erased)), structuredContent: { erased } };
    }),
  );
  return server;
}

const ends: (() => unknown)[] = [];
export async function endAll(): Promise<void> {
  for (const end of ends.splice(0).reverse()) await end();
}

/** A principal from a header that stands for verified auth. */
const byHeader: ServerValiseOptions['principal'] = (_, extra) => {
  const { request, requestInfo } = (extra ?? {}) as {
    request?: Request;
    requestInfo?: { headers: Record<string, string | undefined> };
  };
  const subject = request?.headers.get('x-user') ?? requestInfo?.headers['x-user'];
  return subject ? { subject } : undefined;
};

/** Serves over HTTP. Each call of the returned function is another process as far as memory goes. */
export async function serve(
  way: Way,
  options: Partial<ServerValiseOptions> = {},
  { edge = true } = {},
): Promise<{ url: URL; valise: ServerValise; warnings: string[]; rejected: string[] }> {
  const [warnings, rejected]: string[][] = [[], []];
  const valise = createValise({
    name: 'test',
    keys,
    principal: byHeader,
    sessions: { mode: 'stored' },
    ...options,
    events: {
      warning: ({ what, next }) => void warnings?.push(`${what} ${next}`),
      rejected: ({ what, reason }) => void rejected?.push(`${what}: ${reason}`),
      ...options.events,
    },
  });
  const stateless: RequestListener = async (request, response) => {
    const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined as never });
    await build(valise, 0).connect(transport as never);
    await transport.handleRequest(request, response);
  };
  const handler =
    way.major === 0
      ? stateless
      : (toNodeHandler(createMcpHandler(() => build(valise, 1))) as RequestListener);
  const server = createServer(edge ? (valise.http(handler) as RequestListener) : handler).listen(
    0,
    '127.0.0.1',
  );
  await once(server, 'listening');
  ends.push(async () => {
    server.closeAllConnections();
    server.close();
    await valise.close();
  });
  const url = new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`);
  return { url, valise, warnings: warnings as string[], rejected: rejected as string[] };
}

export interface Stock {
  /** Calls a tool. Returns its text blocks joined, and the whole result. */
  call(
    name: string,
    args?: object,
    meta?: object,
  ): Promise<{ text: string; handle: string | undefined; result: Result }>;
  tools(): Promise<readonly Tool[]>;
  close(): Promise<void>;
}
interface Tool {
  readonly name: string;
  readonly description?: string;
  readonly inputSchema: { readonly properties?: Record<string, unknown>; readonly required?: string[] };
  readonly outputSchema?: { readonly properties?: Record<string, unknown> };
  readonly _meta?: Record<string, unknown>;
}
interface Result {
  readonly content: { readonly type: string; readonly text: string }[];
  readonly structuredContent?: Record<string, unknown>;
  readonly isError?: boolean;
}

/** A stock client of the SDK. */
export async function stock(
  { client: major }: Way,
  url: URL,
  headers: Record<string, string> = {},
  capabilities: object = {},
): Promise<Stock> {
  const info = { name: 'stock', version: '1.0.0' };
  const client = (
    major === 'v1'
      ? new ClientV1(info, { capabilities })
      : new ClientV2(info, { capabilities, versionNegotiation: { mode: 'auto' } })
  ) as ClientV2;
  const transport = major === 'v1' ? HttpV1 : HttpV2;
  await client.connect(new transport(url, { requestInit: { headers } }) as never);
  ends.push(() => client.close());
  return stockOf(client);
}

/** What a host sees of a client of either major. */
export function stockOf(client: ClientV2): Stock {
  return {
    async call(name, args = {}, _meta) {
      const result = (await client.callTool({
        name,
        arguments: { ...args },
        ...(_meta && { _meta }),
      } as never)) as never as Result;
      const text = result.content.map((block) => block.text).join('');
      return { text, handle: /vh1_[\w-]+/.exec(text)?.[0], result };
    },
    tools: async () => (await client.listTools()).tools as never as Tool[],
    close: () => client.close(),
  };
}
