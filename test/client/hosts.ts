import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { Client as ClientV2, StreamableHTTPClientTransport as HttpV2 } from '@modelcontextprotocol/client';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as HttpV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import type { ClientValise } from 'mcp-valise/client';
import { CORE, type Meta, type Params, type Result } from 'mcp-valise/internal';

/** A request as it was on the wire. */
export interface Seen {
  /** The host that the client meant to talk to. */
  readonly host: string;
  readonly method: string;
  readonly params: Params;
  readonly meta: Meta;
}

/** MCP servers of any host name, all at one port of this machine; what they answer is up to the test. */
export interface Hosts {
  readonly seen: Seen[];
  /** Adds to the result of a request; may set state under `_meta`. With `error`, that is the answer. */
  respond: (request: Seen) => Result | Promise<Result>;
  /** Capabilities that the servers announce. */
  capabilities: object;
  /** The id that `initialize` is answered with; none where undefined. */
  sessionId: string | undefined;
  /** Where requests are sent on to, with the status that keeps method and body. */
  redirect: string | undefined;
  /** The latest request of a method, or of any. */
  last(method?: string): Seen;
  readonly port: number;
  fetch: (url: string | URL, init?: RequestInit) => Promise<Response>;
  close(): Promise<void>;
}

export async function openHosts(): Promise<Hosts> {
  const server = createServer(async (request, response) => {
    if (request.method !== 'POST') return void response.writeHead(405).end();
    const message = JSON.parse(await text(request)) as { id?: number; method?: string; params?: Params };
    if (message.id === undefined || message.method === undefined) return void response.writeHead(202).end();
    const host = String(request.headers['x-host']);
    if (hosts.redirect !== undefined && new URL(hosts.redirect).hostname !== host)
      return void response.writeHead(307, { location: hosts.redirect }).end();
    const { params = {} } = message;
    const seen: Seen = {
      host,
      method: message.method,
      params,
      meta: params._meta ?? {},
    };
    hosts.seen.push(seen);
    const modern = CORE.protocolVersion in seen.meta;
    const result = {
      ...(modern && { resultType: 'complete', ttlMs: 0, cacheScope: 'private' }),
      ...usual(seen, hosts),
      ...(await hosts.respond(seen)),
    };
    response.writeHead(200, {
      'content-type': 'application/json',
      ...(hosts.sessionId !== undefined &&
        message.method === 'initialize' && { 'mcp-session-id': hosts.sessionId }),
    });
    const answer = 'error' in result ? { error: result['error'] } : { result };
    response.end(JSON.stringify({ jsonrpc: '2.0', id: message.id, ...answer }));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const hosts: Hosts = {
    seen: [],
    respond: () => ({}),
    capabilities: { tools: {}, prompts: {}, resources: {}, completions: {} },
    sessionId: undefined,
    redirect: undefined,
    last(method) {
      const found = this.seen.findLast((one) => method === undefined || one.method === method);
      if (!found) throw new Error(`no request ${method ?? ''} has come`);
      return found;
    },
    port: (server.address() as AddressInfo).port,
    fetch: fetchAt(server),
    close: () => stop(server),
  };
  return hosts;
}

function usual({ method, params }: Seen, { capabilities }: Hosts): Result {
  const serverInfo = { name: 'scripted', version: '1.0.0' };
  switch (method) {
    case 'initialize':
      return { protocolVersion: params['protocolVersion'], capabilities, serverInfo };
    case 'server/discover':
      return {
        supportedVersions: ['2026-07-28'],
        capabilities,
        _meta: { [CORE.serverInfo]: serverInfo },
      };
    case 'tools/call':
      return { content: [{ type: 'text', text: 'done' }] };
    case 'tools/list':
      return { tools: [] };
    case 'prompts/list':
      return { prompts: [] };
    case 'prompts/get':
      return { messages: [] };
    case 'resources/read':
      return { contents: [] };
    case 'completion/complete':
      return { completion: { values: [] } };
    default:
      return {};
  }
}

/** Also where a test puts another in its place. */
const network = fetch;

function fetchAt(server: Server): Hosts['fetch'] {
  return async (url, init = {}) => {
    const meant = new URL(url);
    const { port } = server.address() as AddressInfo;
    const headers = new Headers(init.headers);
    headers.set('x-host', meant.hostname);
    const at = (place: URL): string => `http://127.0.0.1:${port}${place.pathname}`;
    const response = await network(at(meant), { ...init, headers, redirect: 'manual' });
    const next = response.headers.get('location');
    // As `fetch` itself would go on, were these hosts real.
    if (next === null || init.redirect === 'manual') return response;
    headers.set('x-host', new URL(next).hostname);
    return network(at(new URL(next)), { ...init, headers });
  };
}

async function stop(server: Server): Promise<void> {
  server.closeAllConnections();
  server.close();
  await once(server, 'close');
}

/** The majors, and the eras that each speaks. */
export const KINDS = [
  { kind: 'v1', major: 'v1', era: 'legacy' },
  { kind: 'v2 legacy', major: 'v2', era: 'legacy' },
  { kind: 'v2 modern', major: 'v2', era: 'modern' },
] as const;

/** One of {@link KINDS}. */
export type Kind = (typeof KINDS)[number];

/** Connects a real client of the SDK to a host. */
export async function connect(
  valise: ClientValise,
  hosts: Hosts,
  url: string,
  { major, era }: Kind = KINDS[0],
) {
  const info = { name: 'test', version: '1.0.0' };
  const options = { fetch: hosts.fetch };
  if (major === 'v1') {
    const client = new ClientV1(info);
    await valise.connect(client, new HttpV1(new URL(url), options));
    return client as unknown as ClientV2;
  }
  const client = new ClientV2(info, {
    ...(era === 'modern' && { versionNegotiation: { mode: { pin: '2026-07-28' } } }),
  });
  await valise.connect(client, new HttpV2(new URL(url), options));
  return client;
}

/** State as a message carries it, in either era. */
export function stateOf(meta: Meta): { readonly session?: object; readonly server?: object } {
  const modern = meta['dev.valise/state'] as object | undefined;
  if (modern) return modern;
  const session = meta['modelcontextprotocol.io/state/session'] as object | undefined;
  const server = meta['modelcontextprotocol.io/state/server'] as object | undefined;
  return { ...(session && { session }), ...(server && { server }) };
}

/** A result that sets state the way a legacy or a modern server does. */
export function setting(
  era: Kind['era'],
  state: { readonly session?: object; readonly server?: object },
  attributes?: object,
): Result {
  const _meta: Record<string, unknown> = {};
  if (era === 'modern') _meta['dev.valise/state'] = state;
  else {
    if (state.session) _meta['modelcontextprotocol.io/state/session'] = state.session;
    if (state.server) _meta['modelcontextprotocol.io/state/server'] = state.server;
  }
  if (attributes) _meta['dev.valise/state-attributes'] = attributes;
  return { _meta };
}
