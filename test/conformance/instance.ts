import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { getRequestListener } from '@hono/node-server';
import { WebStandardStreamableHTTPServerTransport as TransportV1 } from '@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js';
import {
  createMcpHandler,
  isLegacyRequest,
  type ServerNotifier,
  WebStandardStreamableHTTPServerTransport as TransportV2,
} from '@modelcontextprotocol/server';
import { eventBus, eventStore } from 'mcp-valise/adapters';
import { openBus, openStore } from 'mcp-valise/store';
import { fixtureServer } from './fixture.ts';

/**
 * One of several instances of a fixture server, in a process of its own, without Valise but for the adapters:
 * `instance.ts <sdk> <store> <bus>`. Tells its port.
 */
const [sdk = 'v2', storeUrl = '', busUrl = ''] = process.argv.slice(2) as ['v1' | 'v2', string, string];
const store = await openStore(storeUrl);
const bus = eventBus(await openBus(busUrl));
await bus.ready;

const notifier: ServerNotifier = {
  toolsChanged: () => modern.notify.toolsChanged(),
  promptsChanged: () => modern.notify.promptsChanged(),
  resourcesChanged: () => modern.notify.resourcesChanged(),
  resourceUpdated: (uri) => modern.notify.resourceUpdated(uri),
};
const modern = createMcpHandler(() => fixtureServer({ sdk: 'v2' }, notifier), { legacy: 'reject', bus });

type Transport = Pick<TransportV2, 'handleRequest'>;
const sessions = new Map<string, Transport>();

async function start(session: string): Promise<Transport> {
  const options = {
    sessionIdGenerator: () => session,
    eventStore: eventStore(store, { session }),
    retryInterval: 200,
  };
  const transport = sdk === 'v1' ? new TransportV1(options) : new TransportV2(options);
  await fixtureServer({ sdk }, notifier).connect(transport as never);
  sessions.set(session, transport as Transport);
  return transport as Transport;
}

/** Goes on with a session of another instance: it introduces itself in the client's place. */
async function adopt(session: string): Promise<Transport> {
  const transport = await start(session);
  const clientInfo = { name: 'adopted', version: '1.0.0' };
  const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo };
  const request = new Request('http://127.0.0.1/mcp', {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 'adopt', method: 'initialize', params }),
  });
  await (await transport.handleRequest(request)).text();
  return transport;
}

async function answer(request: Request): Promise<Response> {
  if (sdk === 'v2' && !(await isLegacyRequest(request))) return modern.fetch(request);
  const id = request.headers.get('mcp-session-id');
  const transport = id === null ? await start(randomUUID()) : (sessions.get(id) ?? (await adopt(id)));
  return transport.handleRequest(request);
}

const http = createServer(getRequestListener(answer));
http.listen(0, '127.0.0.1', () => console.log((http.address() as AddressInfo).port));
