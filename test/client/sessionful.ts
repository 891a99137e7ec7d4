import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { Client as ClientV2 } from '@modelcontextprotocol/client';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import {
  type EventStore,
  StreamableHTTPServerTransport,
} from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { z } from 'zod';

/** A request as it was on the wire. */
export interface Heard {
  readonly verb: string;
  /** The method of the message in it; '' where there is none. */
  readonly method: string;
  readonly id: unknown;
  readonly session: string | undefined;
  readonly version: string | undefined;
  readonly lastEventId: string | undefined;
  readonly authorization: string | undefined;
  readonly params: Record<string, unknown>;
  readonly meta: Record<string, unknown>;
}

type Answer = { readonly status: number; readonly body?: string } | undefined;

/** A real server of the older era, with a counter per session, and what came to it. */
export interface Sessionful {
  readonly url: string;
  readonly heard: Heard[];
  /** Answers in place of the server where it returns a status. */
  intercept: (heard: Heard) => Answer | Promise<Answer>;
  instructions: string;
  /** Sets session-scope state with the next result of `count`. */
  state: object | undefined;
  methods(): string[];
  sessions(): string[];
  /** Forgets every session, as a server that was restarted. */
  lose(): void;
  /** Sends something on the standalone streams. */
  announce(): Promise<void>;
  /** Lets a `wait` of this name go on. */
  release(tag: string): void;
  waiting(tag: string): Promise<void>;
  close(): Promise<void>;
}

export async function openSessionful(): Promise<Sessionful> {
  const sessions = new Map<string, { transport: StreamableHTTPServerTransport; server: McpServer }>();
  const held = new Map<
    string,
    { arrived: () => void; go: () => void; here: Promise<void>; may: Promise<void> }
  >();
  const gate = (tag: string) => {
    let found = held.get(tag);
    if (!found) {
      let arrived = () => {};
      let go = () => {};
      const here = new Promise<void>((resolve) => (arrived = resolve));
      const may = new Promise<void>((resolve) => (go = resolve));
      held.set(tag, (found = { arrived, go, here, may }));
    }
    return found;
  };
  const begin = async (): Promise<StreamableHTTPServerTransport> => {
    const server = new McpServer(
      { name: 'sessionful', version: '9.0.0' },
      { instructions: sessionful.instructions, capabilities: { tools: { listChanged: true }, logging: {} } },
    );
    let count = 0;
    server.registerTool('count', { outputSchema: { n: z.number() } }, () => {
      count++;
      const { state } = sessionful;
      sessionful.state = undefined;
      const _meta = state && { 'modelcontextprotocol.io/state/session': state };
      return { content: [], structuredContent: { n: count }, ...(_meta && { _meta }) };
    });
    server.registerTool('wait', { inputSchema: { tag: z.string() } }, async ({ tag }, extra) => {
      const token = extra._meta?.progressToken;
      const at = gate(tag);
      at.arrived();
      await at.may;
      if (token !== undefined)
        await extra.sendNotification({
          method: 'notifications/progress',
          params: { progressToken: token, progress: 1, message: tag },
        });
      return { content: [{ type: 'text', text: tag }] };
    });
    const transport: StreamableHTTPServerTransport = new StreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      eventStore: memoryEvents(),
      onsessioninitialized: (id) => void sessions.set(id, { transport, server }),
      onsessionclosed: (id) => void sessions.delete(id),
    });
    await server.connect(transport);
    return transport;
  };
  const http = createServer(async (request, response) => {
    const body = request.method === 'POST' ? (JSON.parse(await text(request)) as object) : undefined;
    const heard = listen(request, body);
    sessionful.heard.push(heard);
    const answer = await sessionful.intercept(heard);
    if (answer) {
      const type = answer.status === 200 ? 'application/json' : 'text/plain';
      return void response.writeHead(answer.status, { 'content-type': type }).end(answer.body);
    }
    if (heard.session !== undefined && !sessions.has(heard.session))
      return void response.writeHead(404).end('Session not found');
    const { transport } = (heard.session && sessions.get(heard.session)) || { transport: await begin() };
    await transport.handleRequest(request, response, body);
  }).listen(0, '127.0.0.1');
  await once(http, 'listening');
  const sessionful: Sessionful = {
    url: `http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp`,
    heard: [],
    intercept: () => undefined,
    instructions: 'be kind',
    state: undefined,
    methods: () => sessionful.heard.map(({ verb, method }) => method || verb),
    sessions: () => [...sessions.keys()],
    lose: () => sessions.clear(),
    async announce() {
      for (const { server } of sessions.values()) await server.server.sendToolListChanged();
    },
    release: (tag) => gate(tag).go(),
    waiting: (tag) => gate(tag).here,
    async close() {
      http.closeAllConnections();
      http.close();
      await once(http, 'close');
    },
  };
  return sessionful;
}

function listen(request: IncomingMessage, body: unknown): Heard {
  const message = (body ?? {}) as { method?: string; id?: unknown; params?: { _meta?: object } };
  const header = (name: string) => request.headers[name] as string | undefined;
  return {
    verb: request.method ?? '',
    method: message.method ?? '',
    id: message.id,
    session: header('mcp-session-id'),
    version: header('mcp-protocol-version'),
    lastEventId: header('last-event-id'),
    authorization: header('authorization'),
    params: { ...message.params },
    meta: { ...message.params?._meta },
  };
}

/** Events of a session, so that its streams can be taken up again. */
function memoryEvents(): EventStore {
  const events: { stream: string; message: unknown }[] = [];
  return {
    async storeEvent(stream, message) {
      return `event-${events.push({ stream, message })}`;
    },
    async getStreamIdForEventId(id) {
      return events[Number(id.slice(6)) - 1]?.stream;
    },
    async replayEventsAfter(id, { send }) {
      const from = Number(id.slice(6));
      const stream = events[from - 1]?.stream ?? '';
      for (const [at, event] of events.entries())
        if (at >= from && event.stream === stream) await send(`event-${at + 1}`, event.message as never);
      return stream;
    },
  };
}

const info = { name: 'continuity', version: '1.0.0' };

/** Clients that speak the older era. */
export const LEGACY_CLIENTS = [
  { kind: 'v1', make: () => new ClientV1(info) as unknown as ClientV2 },
  { kind: 'v2', make: () => new ClientV2(info) },
  { kind: 'v2 auto', make: () => new ClientV2(info, { versionNegotiation: { mode: 'auto' } }) },
] as const;

/** The number that `count` answers. */
export async function count(client: ClientV2): Promise<number> {
  const { structuredContent } = await client.callTool({ name: 'count' });
  return (structuredContent as { n: number }).n;
}

/** Calls a tool with options, which are the third argument in v1 and the second in v2. */
export function callWith(client: ClientV2, tag: string, options: object) {
  const params = { name: 'wait', arguments: { tag } };
  return client instanceof ClientV2
    ? client.callTool(params, options)
    : (client as unknown as ClientV1).callTool(params, undefined, options);
}
