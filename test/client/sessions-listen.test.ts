import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Client as ClientV2, StreamableHTTPClientTransport as HttpV2 } from '@modelcontextprotocol/client';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as HttpV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { createMcpHandler } from '@modelcontextprotocol/server';
import { type ClientValise, openValise } from 'mcp-valise/client';
import { createValise, type ServerValise } from 'mcp-valise/server';
import { memoryBus, memoryStore } from 'mcp-valise/store';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { edgeFetch } from '../../src/edge/fetch.ts';
import type { Notification } from '../../src/wire/index.ts';
import { MAJORS } from '../server/majors.ts';
import { KINDS, type Kind } from './hosts.ts';

const UPDATED = 'notifications/resources/updated';
const CHANGED = 'notifications/tools/list_changed';
const keys = 'T0aGXc1lJg5o3VtW3bYpW2yZr9s0u1v2w3x4y5z6A7Q';

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

/** A server without transport sessions, over HTTP, of the major that speaks the era. */
async function serve(kind: Kind, { json = false }: { json?: boolean } = {}) {
  const valise = createValise({ name: 'test', keys, sessions: {} });
  const { McpServer } = MAJORS[kind.major === 'v1' ? 0 : 1];
  const make = () => {
    const server = valise.install(new McpServer({ name: 'test', version: '1.0.0' }));
    server.registerTool('work', {}, async () => ({ content: [] }));
    return server;
  };
  const modern = toNodeHandler(createMcpHandler(make));
  const http: Server = createServer(async (request, response) => {
    if (kind.major === 'v2') return void modern(request as never, response);
    const transport = new StreamableHTTPServerTransport({ enableJsonResponse: json });
    await make().connect(transport);
    response.once('close', () => void transport.close());
    await transport.handleRequest(request, response);
  }).listen(0, '127.0.0.1');
  await once(http, 'listening');
  const url = new URL(`http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp`);
  closing.push(
    () => valise.close(),
    () => http.close(),
    () => http.closeAllConnections(),
  );
  return { valise, http, url };
}

async function connect(kind: Kind, url: URL): Promise<{ valise: ClientValise; client: ClientV2 }> {
  const valise = await openValise({ store: memoryStore(), allowLocal: true });
  const info = { name: 'test', version: '1.0.0' };
  const options = { fetch: edgeFetch() };
  const client =
    kind.major === 'v1'
      ? (new ClientV1(info) as unknown as ClientV2)
      : new ClientV2(info, {
          versionNegotiation: { mode: kind.era === 'modern' ? { pin: '2026-07-28' } : 'legacy' },
        });
  await valise.connect(
    client,
    kind.major === 'v1' ? (new HttpV1(url, options) as never) : new HttpV2(url, options),
  );
  closing.push(
    () => valise.close(),
    () => client.close(),
  );
  return { valise, client };
}

const uris = (heard: readonly Notification[]) => heard.map(({ params }) => params?.['uri']);
const tell = (server: ServerValise, id: string, uri: string) => server.sessions.notify(id, UPDATED, { uri });

describe.each(KINDS)('listening with a client of kind $kind', (kind) => {
  it('[S-28] [S-29] A listener gets the notifications of its session, and a listener without a session gets the rest', async () => {
    const { valise: server, url } = await serve(kind);
    const { valise, client } = await connect(kind, url);
    const sessions = valise.sessions(client);
    const [a, b] = [await sessions.create(), await sessions.create()];
    const heard: Record<'a' | 'b' | 'all', Notification[]> = { a: [], b: [], all: [] };
    await a.listen((one) => heard.a.push(one));
    await b.listen((one) => heard.b.push(one));
    await sessions.listen((one) => heard.all.push(one));
    await tell(server, a.id, '1');
    await tell(server, b.id, '2');
    await tell(server, a.id, '3');
    await server.notify(CHANGED);
    await vi.waitFor(() => expect([heard.a.length, heard.b.length, heard.all.length]).toEqual([2, 1, 1]));
    expect([uris(heard.a), uris(heard.b)]).toEqual([['1', '3'], ['2']]);
    expect(heard.all[0]?.method).toBe(CHANGED);
    expect(JSON.stringify(heard)).not.toContain('"state"');
  });

  it('[S-28] A listener continues at its position after the stream breaks', async () => {
    const { valise: server, http, url } = await serve(kind);
    const { valise, client } = await connect(kind, url);
    const session = await valise.sessions(client).create();
    const heard: Notification[] = [];
    const missed = vi.fn();
    const listening = await session.listen((one) => heard.push(one), { onMissed: missed });
    await tell(server, session.id, '1');
    await vi.waitFor(() => expect(heard).toHaveLength(1));
    http.closeAllConnections();
    for (const uri of ['2', '3']) await tell(server, session.id, uri);
    await vi.waitFor(() => expect(heard).toHaveLength(3), { timeout: 5000 });
    await tell(server, session.id, '4');
    await vi.waitFor(() => expect(heard).toHaveLength(4), { timeout: 5000 });
    expect(uris(heard)).toEqual(['1', '2', '3', '4']);
    expect(missed).not.toHaveBeenCalled();
    await listening.close();
    await tell(server, session.id, '5');
    expect(heard).toHaveLength(4);
  });

  it('[S-28] A listener is told that notifications were missed', async () => {
    const { valise: server, url } = await serve(kind);
    const { valise, client } = await connect(kind, url);
    const session = await valise.sessions(client).create();
    const first = await session.listen(() => {});
    await tell(server, session.id, '0');
    await vi.waitFor(() => expect(first.cursor).toMatch(/\.1$/));
    const { cursor } = first;
    await first.close();
    for (let n = 1; n <= 101; n++) await tell(server, session.id, String(n));
    const heard: Notification[] = [];
    const missed = vi.fn();
    await session.listen((one) => heard.push(one), { after: cursor, onMissed: missed });
    await vi.waitFor(() => expect(heard).toHaveLength(100), { timeout: 5000 });
    expect(missed).toHaveBeenCalledOnce();
  });

  it('[S-28] A listener can poll, from now on or after a position', async () => {
    const { valise: server, url } = await serve(kind);
    const { valise, client } = await connect(kind, url);
    const session = await valise.sessions(client).create();
    await tell(server, session.id, 'before');
    const heard: Notification[] = [];
    const first = await session.listen((one) => heard.push(one), { poll: { wait: 5 } });
    const { cursor } = first;
    await tell(server, session.id, '1');
    await vi.waitFor(() => expect(uris(heard)).toEqual(['1']), { timeout: 5000 });
    await tell(server, session.id, '2');
    await vi.waitFor(() => expect(uris(heard)).toEqual(['1', '2']), { timeout: 5000 });
    await first.close();
    const again: Notification[] = [];
    const second = await session.listen((one) => again.push(one), { poll: { wait: 5 }, after: cursor });
    await vi.waitFor(() => expect(uris(again)).toEqual(['1', '2']), { timeout: 5000 });
    await second.close();
  });

  it('[S-30] A listener gets the updates of resources that were subscribed to within the session', async () => {
    const { valise: server, url } = await serve(kind);
    const { valise, client } = await connect(kind, url);
    const [a, b] = [await valise.sessions(client).create(), await valise.sessions(client).create()];
    const heard: Record<'a' | 'b', Notification[]> = { a: [], b: [] };
    await a.listen((one) => heard.a.push(one), kind.era === 'modern' ? { resources: ['notes://x'] } : {});
    await b.listen((one) => heard.b.push(one));
    if (kind.era === 'legacy') await a.run(() => client.subscribeResource({ uri: 'notes://x' }));
    await server.notify(UPDATED, { uri: 'notes://x' });
    await server.notify(UPDATED, { uri: 'notes://y' });
    await tell(server, b.id, 'last');
    await vi.waitFor(() => expect([uris(heard.a), uris(heard.b)]).toEqual([['notes://x'], ['last']]));
  });

  it('A listener ends with its session, and listening to a session that is gone fails', async () => {
    const { url } = await serve(kind);
    const { valise, client } = await connect(kind, url);
    const session = await valise.sessions(client).create();
    const listening = await session.listen(() => {});
    await session.delete();
    await listening.closed;
    await expect(session.listen(() => {})).rejects.toMatchObject({ code: 'session-gone' });
  });

  it.each([
    { found: 'a call', poll: false },
    { found: 'the listener itself', poll: false },
    { found: 'the listener itself, by polling', poll: { wait: 1 } },
  ])(
    'A listener follows its session to the one that replaces it, found gone by $found',
    async ({ found, poll }) => {
      const { valise: server, url } = await serve(kind);
      const { valise, client } = await connect(kind, url);
      const session = await valise.sessions(client).create({ onGone: 'recreate' });
      const heard: string[] = [];
      const listening = await session.listen(({ params }) => heard.push(`one ${params?.['uri']}`), { poll });
      await tell(server, session.id, '1');
      await vi.waitFor(() => expect(heard).toEqual(['one 1']), { timeout: 5000 });
      const { id } = session;
      await server.sessions.revoke(id);
      if (found === 'a call') await session.run(() => client.callTool({ name: 'work' }));
      await vi.waitFor(() => expect(session.id).not.toBe(id), { timeout: 5000 });
      await tell(server, session.id, '2');
      await vi.waitFor(() => expect(heard).toEqual(['one 1', 'one 2']), { timeout: 5000 });
      await session.listen(({ params }) => heard.push(`two ${params?.['uri']}`));
      await tell(server, session.id, '3');
      await vi.waitFor(() => expect(heard).toHaveLength(4), { timeout: 5000 });
      expect(heard.slice(2)).toEqual(['one 3', 'two 3']);
      await listening.close();
      await session.delete();
    },
  );

  it('Listening fails if no connected server can be asked', async () => {
    const { url } = await serve(kind);
    const { valise, client } = await connect(kind, url);
    const sessions = valise.sessions(client);
    const session = await sessions.create();
    await client.close();
    await expect(sessions.listen(() => {})).rejects.toThrow();
    await expect(session.listen(() => {})).rejects.toThrow();
    await expect(session.listen(() => {}, { poll: true })).rejects.toThrow();
  });

  it('Several listeners share one stream, and each gets every notification once', async () => {
    const { valise: server, url } = await serve(kind);
    const { valise, client } = await connect(kind, url);
    const session = await valise.sessions(client).create();
    const heard: string[] = [];
    const one = await session.listen(({ params }) => heard.push(`one ${params?.['uri']}`));
    await session.listen(({ params }) => heard.push(`two ${params?.['uri']}`));
    await tell(server, session.id, '1');
    await vi.waitFor(() => expect(heard).toEqual(['one 1', 'two 1']));
    await one.close();
    await tell(server, session.id, '2');
    await vi.waitFor(() => expect(heard).toEqual(['one 1', 'two 1', 'two 2']));
  });
});

it('[S-28] A client polls a server that cannot keep a stream open', {
  timeout: 60_000,
}, async () => {
  const { valise: server, url } = await serve(KINDS[0], { json: true });
  const { valise, client } = await connect(KINDS[0], url);
  const session = await valise.sessions(client).create();
  const heard: Notification[] = [];
  await session.listen((one) => heard.push(one));
  await tell(server, session.id, '1');
  await vi.waitFor(() => expect(uris(heard)).toEqual(['1']), { timeout: 30_000 });
});

it('[S-28] [S-29] Listeners work in memory, with one channel for all', async () => {
  for (const { McpServer, Memory } of MAJORS) {
    const server = createValise({ name: 'test', keys, sessions: { bus: memoryBus() } });
    const [near, far] = Memory.createLinkedPair();
    await server.install(new McpServer({ name: 'test', version: '1.0.0' })).connect(far);
    const valise = await openValise({ store: memoryStore(), allowLocal: true });
    const client = new ClientV2({ name: 'test', version: '1.0.0' });
    await valise.connect(client, near);
    const [a, b] = [await valise.sessions(client).create(), await valise.sessions(client).create()];
    const heard: string[] = [];
    await a.listen(({ params }) => heard.push(`a ${params?.['uri']}`));
    const listening = await b.listen(({ params }) => heard.push(`b ${params?.['uri']}`));
    await tell(server, b.id, '1');
    await tell(server, a.id, '2');
    await vi.waitFor(() => expect([...heard].sort()).toEqual(['a 2', 'b 1']));
    await client.close();
    await listening.closed;
    await valise.close();
    await server.close();
  }
});
