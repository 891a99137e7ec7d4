import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import {
  createMcpHandler,
  type EventStore,
  isLegacyRequest,
  type JSONRPCMessage,
  type ServerNotifier,
  WebStandardStreamableHTTPServerTransport,
} from '@modelcontextprotocol/server';
import { type FixtureOptions, fixtureServer } from './fixture.ts';

/** A fixture server on a free port. */
export interface Served {
  readonly url: string;
  close(): Promise<void>;
}

type Answer = (request: IncomingMessage, response: ServerResponse) => Promise<void>;
interface Endpoint {
  readonly answer: Answer;
  close(): Promise<void>;
}

/** Serves the fixture over HTTP, with sessions for the older era; v2 also without, for the newer one. */
export async function serveFixture(options: FixtureOptions): Promise<Served> {
  const endpoint = options.sdk === 'v2' ? overV2(options) : overV1(options);
  const listener = createServer((request, response) => {
    const { host, origin } = request.headers;
    if (isLocal(`http://${host}`) && (origin === undefined || isLocal(origin)))
      endpoint.answer(request, response).catch(() => response.destroy());
    else response.writeHead(403).end();
  }).listen(0, '127.0.0.1');
  await once(listener, 'listening');
  return {
    url: `http://127.0.0.1:${(listener.address() as AddressInfo).port}/mcp`,
    async close() {
      listener.close();
      await endpoint.close();
      listener.closeAllConnections();
      await options.valise?.close();
    },
  };
}

function isLocal(url: string): boolean {
  return /^https?:\/\/(localhost|127\.0\.0\.1|\[::1\])(:\d+)?$/.test(url);
}

function overV2(options: FixtureOptions): Endpoint {
  const notifier: ServerNotifier = {
    toolsChanged: () => modern.notify.toolsChanged(),
    promptsChanged: () => modern.notify.promptsChanged(),
    resourcesChanged: () => modern.notify.resourcesChanged(),
    resourceUpdated: (uri) => modern.notify.resourceUpdated(uri),
  };
  const modern = createMcpHandler(() => fixtureServer(options, notifier), { legacy: 'reject' });
  const sessions = new Map<string, WebStandardStreamableHTTPServerTransport>();
  const start = async () => {
    const transport = new WebStandardStreamableHTTPServerTransport({
      ...resumable(),
      onsessioninitialized: (id) => void sessions.set(id, transport),
      onsessionclosed: (id) => void sessions.delete(id),
    });
    await fixtureServer(options, notifier).connect(transport);
    return transport;
  };
  const both: Pick<typeof modern, 'fetch'> = {
    async fetch(request, given) {
      if (!(await isLegacyRequest(request, given?.parsedBody))) return modern.fetch(request, given);
      const id = request.headers.get('mcp-session-id');
      const transport = id === null ? await start() : sessions.get(id);
      return transport ? transport.handleRequest(request, given) : new Response(null, { status: 404 });
    },
  };
  const listener = toNodeHandler(options.valise ? options.valise.http(both as never) : both);
  return {
    answer: (request, response) => listener(request as Parameters<typeof listener>[0], response),
    async close() {
      for (const transport of sessions.values()) await transport.close();
      await modern.close();
    },
  };
}

function overV1(options: FixtureOptions): Endpoint {
  const sessions = new Map<string, StreamableHTTPServerTransport>();
  const start = async () => {
    const transport: StreamableHTTPServerTransport = new StreamableHTTPServerTransport({
      ...resumable(),
      onsessioninitialized: (id) => void sessions.set(id, transport),
      onsessionclosed: (id) => void sessions.delete(id),
    });
    await fixtureServer(options).connect(transport as never);
    return transport;
  };
  const answer = async (request: IncomingMessage, response: ServerResponse, body?: unknown) => {
    const id = request.headers['mcp-session-id'];
    const transport = typeof id === 'string' ? sessions.get(id) : await start();
    if (transport) await transport.handleRequest(request, response, body);
    else response.writeHead(404).end();
  };
  return {
    answer: options.valise ? options.valise.http(answer) : answer,
    async close() {
      for (const transport of sessions.values()) await transport.close();
    },
  };
}

/** Sessions whose streams can be taken up again, soon after they were cut. */
function resumable() {
  return { sessionIdGenerator: randomUUID, eventStore: eventStore(), retryInterval: 200 };
}

function eventStore(): EventStore {
  const events: { readonly stream: string; readonly message: JSONRPCMessage }[] = [];
  return {
    async storeEvent(stream, message) {
      return String(events.push({ stream, message }));
    },
    async replayEventsAfter(last, { send }) {
      const stream = events[Number(last) - 1]?.stream ?? '';
      for (const [index, event] of events.entries()) {
        if (index >= Number(last) && event.stream === stream && 'jsonrpc' in event.message)
          await send(String(index + 1), event.message);
      }
      return stream;
    },
  };
}
