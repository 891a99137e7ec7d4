import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Client as ClientV2 } from '@modelcontextprotocol/client';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { McpServer as McpServerV1 } from '@modelcontextprotocol/sdk/server/mcp.js';
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { McpServer as McpServerV2 } from '@modelcontextprotocol/server';
import { generateKey } from 'mcp-valise/seal';
import type { ServerValiseOptions } from 'mcp-valise/server';
import type { Example, Kit } from '../../examples/serve.ts';
import { httpV1, httpV2 } from '../../examples/serve-http.ts';
import { example as workItems } from '../../examples/work-items.ts';
import type { AnyClient } from './hosts.ts';

/** A message as it stood on the wire. */
export interface Seen {
  readonly from: 'client' | 'server';
  /** Which instance it went to or came from. */
  readonly instance: number;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into messages of every shape
  readonly message: any;
}

/** Instances of one server, without sessions, that share nothing but what is given. */
export interface Stage {
  readonly urls: readonly URL[];
  /** Sends each request to the next instance, as a round-robin balancer does. */
  readonly fetch: (url: string | URL, init?: RequestInit) => Promise<Response>;
  readonly seen: Seen[];
  stop(instance: number): Promise<void>;
  close(): Promise<void>;
}

export interface StageOptions {
  readonly sdk: 'v1' | 'v2';
  readonly instances?: number;
  readonly example?: Example;
  readonly options?: Partial<ServerValiseOptions>;
  readonly stateless?: boolean;
}

export async function stage({
  sdk,
  instances = 3,
  example = workItems,
  options = {},
  stateless = true,
}: StageOptions): Promise<Stage> {
  const keys = generateKey();
  const servers: Server[] = [];
  const ends: (() => Promise<void>)[] = [];
  const McpServer = (sdk === 'v1' ? McpServerV1 : McpServerV2) as typeof McpServerV2;
  for (let at = 0; at < instances; at++) {
    const kit: Kit = { sdk, McpServer, options: { keys, ...options } as Kit['options'], flags: {} };
    const built = await example.build(kit);
    const endpoint = await (sdk === 'v1' ? httpV1 : httpV2)(built.server, stateless);
    const answer = built.valise.http(endpoint.answer);
    const server = createServer((request, response) => void answer(request, response)).listen(0, '127.0.0.1');
    await once(server, 'listening');
    servers.push(server);
    ends.push(async () => {
      await endpoint.close();
      await built.valise.close();
    });
  }
  const urls = servers.map(
    (server) => new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`),
  );
  const seen: Seen[] = [];
  let turn = 0;
  const alive = new Set(urls.keys());
  const next = (): number => {
    do turn = (turn + 1) % urls.length;
    while (!alive.has(turn));
    return turn;
  };
  const stop = async (instance: number): Promise<void> => {
    alive.delete(instance);
    servers[instance]?.closeAllConnections();
    servers[instance]?.close();
  };
  return {
    urls,
    seen,
    stop,
    async fetch(_url, init) {
      const instance = next();
      if (typeof init?.body === 'string') note(seen, 'client', instance, init.body);
      const response = await fetch(urls[instance] as URL, init);
      return watched(response, seen, instance);
    },
    async close() {
      for (const at of urls.keys()) if (alive.has(at)) await stop(at);
      for (const end of ends) await end();
    },
  };
}

function note(seen: Seen[], from: Seen['from'], instance: number, text: string): void {
  const message = JSON.parse(text) as { method?: string };
  seen.push({ from, instance, message });
}

/** Notes what passes; the stream itself is untouched. */
function watched(response: Response, seen: Seen[], instance: number): Response {
  if (!response.body) return response;
  const decoder = new TextDecoder();
  let text = '';
  const events = response.headers.get('content-type')?.startsWith('text/event-stream');
  const body = response.body.pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      transform(chunk, controller) {
        text += decoder.decode(chunk, { stream: true });
        if (events) {
          const parts = text.split('\n\n');
          text = parts.pop() ?? '';
          for (const part of parts) {
            const data = /^data: (.+)$/m.exec(part)?.[1];
            if (data) note(seen, 'server', instance, data);
          }
        }
        controller.enqueue(chunk);
      },
      flush() {
        if (!events && text.startsWith('{')) note(seen, 'server', instance, text);
      },
    }),
  );
  return new Response(body, { status: response.status, headers: response.headers });
}

/** The messages of calls and questions, without handshakes. */
export function dialogue(seen: readonly Seen[]): Seen[] {
  const setup = new Set(['initialize', 'notifications/initialized', 'server/discover', 'tools/list']);
  const ids = new Set(
    seen.filter(({ message }) => setup.has(message.method)).map(({ message }) => message.id),
  );
  return seen.filter(({ message }) => !setup.has(message.method) && !(message.result && ids.has(message.id)));
}

export type Ask = (params: { message: string; requestedSchema: unknown }) => Promise<object> | object;

/** A client that can be asked. */
export function askable(client: 'v1' | 'v2', era: 'legacy' | 'modern', ask: Ask): AnyClient {
  const info = { name: 'host', version: '1.0.0' };
  const capabilities = { elicitation: {} };
  if (client === 'v1') {
    const made = new ClientV1(info, { capabilities });
    made.setRequestHandler(ElicitRequestSchema, ({ params }) => ask(params as never) as never);
    return made as unknown as AnyClient;
  }
  const mode = era === 'modern' ? ({ pin: '2026-07-28' } as const) : 'legacy';
  const made = new ClientV2(info, { capabilities, versionNegotiation: { mode } });
  made.setRequestHandler('elicitation/create', ({ params }) => ask(params as never) as never);
  return made;
}

/** Answers the seed's example as the seed does. */
export const asTheSeed: Ask = ({ message }) => ({
  action: 'accept',
  content: message.startsWith('Resolving') ? { resolution: 'Duplicate' } : { duplicateOfId: 4301 },
});

export const RESOLVE = { workItemId: 4522, fields: { 'System.State': 'Resolved' } };
export const RESOLVED =
  'Bug #4522 resolved as Duplicate of Bug #4301. State set to Resolved and duplicate link created.';
