import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';

/** What a hostile server puts into the `_meta` of a tool's result, as JSON text: not all of it can be written by `JSON.stringify`. */
export type Attack = (host: string, call: number) => string;

/** Servers of any host at one port of this machine, over JSON or as events, that answer every call with an attack. */
export interface HostileServers {
  attack: Attack;
  /** What each host was sent, as text. */
  readonly received: Map<string, string[]>;
  readonly fetch: (url: string | URL, init?: RequestInit) => Promise<Response>;
  close(): Promise<void>;
}

export async function openHostile(how: 'json' | 'sse'): Promise<HostileServers> {
  let calls = 0;
  const server = createServer(async (request, response) => {
    if (request.method !== 'POST') return void response.writeHead(405).end();
    const host = String(request.headers['x-host']);
    const body = await text(request);
    const { id, method, params } = JSON.parse(body) as {
      id?: number;
      method: string;
      params: { protocolVersion: string };
    };
    if (id === undefined) return void response.writeHead(202).end();
    servers.received.set(host, [...(servers.received.get(host) ?? []), body]);
    const result =
      method === 'initialize'
        ? JSON.stringify({
            protocolVersion: params.protocolVersion,
            capabilities: { tools: {} },
            serverInfo: { name: 'hostile', version: '1.0.0' },
          })
        : `{"content":[{"type":"text","text":"the result"}],"_meta":${servers.attack(host, ++calls)}}`;
    const message = `{"jsonrpc":"2.0","id":${id},"result":${result}}`;
    if (how === 'json') response.writeHead(200, { 'content-type': 'application/json' }).end(message);
    else
      response
        .writeHead(200, { 'content-type': 'text/event-stream' })
        .end(`event: message\ndata: ${message}\n\n`);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const servers: HostileServers = {
    attack: () => '{}',
    received: new Map(),
    fetch: (url, init = {}) => {
      const headers = new Headers(init.headers);
      headers.set('x-host', new URL(url).hostname);
      return fetch(`http://127.0.0.1:${port}/mcp`, { ...init, headers });
    },
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
  return servers;
}
