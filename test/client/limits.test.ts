import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Client, InMemoryTransport, type JSONRPCMessage } from '@modelcontextprotocol/client';
import { LeaveOpen, openValise } from 'mcp-valise/client';
import { memoryStore } from 'mcp-valise/store';
import { describe, expect, it, vi } from 'vitest';
import { callText } from '../e2e/hosts.ts';
import { askable } from '../e2e/rounds-stage.ts';
import { rawServer } from './rounds-server.ts';

const SESSION = 'io.modelcontextprotocol/session';

/** A server in this process that says what it likes, and a client with Valise. */
async function hostile(answer: (message: { id: unknown; method: string }) => object | undefined) {
  const [near, far] = InMemoryTransport.createLinkedPair();
  const said: { id?: unknown; error?: { message: string } }[] = [];
  far.onmessage = (message) => {
    const { id, method, params } = message as { id?: unknown; method?: string; params?: object };
    if (id === undefined || method === undefined) {
      said.push(message as { id?: unknown });
      return;
    }
    const introduction = {
      protocolVersion: (params as { protocolVersion?: string })?.protocolVersion,
      capabilities: { tools: {}, experimental: { sessions: {} } },
      serverInfo: { name: 'hostile', version: '1' },
    };
    const result = method === 'initialize' ? introduction : answer({ id, method });
    if (result) void far.send({ jsonrpc: '2.0', id, result } as JSONRPCMessage);
  };
  await far.start();
  const store = memoryStore();
  const valise = await openValise({ store, allowLocal: true });
  const client = new Client({ name: 'me', version: '1' }, { capabilities: { roots: {} } });
  const errors: string[] = [];
  client.onerror = ({ message }) => errors.push(message);
  await valise.connect(client, near);
  return { far, said, store, valise, client, errors };
}

describe('a hostile server', () => {
  it('A server has at most its quota of questions stored, and calls continue', async () => {
    const server = await rawServer(({ message }) => {
      const params = '"params":{"message":"Name?","requestedSchema":{"type":"object","properties":{}}}';
      const id = JSON.stringify(message.id);
      const asked = `{"method":"elicitation/create",${params}}`;
      return [`{"jsonrpc":"2.0","id":${id},"dependent_requests":{"state":"s","requests":[${asked}]}}`];
    });
    const valise = await openValise({ store: memoryStore() });
    const warnings: string[] = [];
    valise.on('warning', ({ what, next }) => warnings.push(`${what} ${next}`));
    const host = askable('v2', 'legacy', () => {
      throw new LeaveOpen();
    });
    await valise.connect(host, server.url, { resume: false });
    for (let n = 0; n < 110; n++) await callText(host, 'any', { n }).catch(() => undefined);
    expect(await valise.pending.list()).toHaveLength(100);
    expect(warnings.at(-1)).toMatch(/100 questions of its server are pending.*drop/);
    const [first] = await valise.pending.list();
    await valise.pending.drop(first?.id as string);
    await callText(host, 'any', {}).catch(() => undefined);
    expect(await valise.pending.list()).toHaveLength(100);
    await host.close();
    await valise.close();
    await server.close();
  });

  it('A question larger than a megabyte is not stored', async () => {
    const server = await rawServer(({ message }) => {
      const params = '"params":{"message":"Name?","requestedSchema":{"type":"object","properties":{}}}';
      const asked = `{"method":"elicitation/create",${params}}`;
      const state = 's'.repeat(1_100_000);
      const id = JSON.stringify(message.id);
      return [`{"jsonrpc":"2.0","id":${id},"dependent_requests":{"state":"${state}","requests":[${asked}]}}`];
    });
    const valise = await openValise({ store: memoryStore() });
    const warnings: string[] = [];
    valise.on('warning', ({ what }) => warnings.push(what));
    const host = askable('v2', 'legacy', () => {
      throw new LeaveOpen();
    });
    await valise.connect(host, server.url, { resume: false });
    await callText(host, 'any', {}).catch(() => undefined);
    expect(await valise.pending.list()).toEqual([]);
    expect(warnings).toContainEqual(expect.stringMatching(/more than 1048576 bytes/));
    await host.close();
    await valise.close();
    await server.close();
  });

  it('A server that asks without end gets errors for the rest, and the host is warned', async () => {
    const { far, said, client, errors, valise } = await hostile(() => ({}));
    client.setRequestHandler('roots/list', () => new Promise(() => undefined));
    for (let n = 0; n < 1020; n++) await far.send({ jsonrpc: '2.0', id: `q${n}`, method: 'roots/list' });
    await vi.waitFor(() => expect(said.filter(({ error }) => error)).toHaveLength(20));
    expect(errors).toContainEqual(expect.stringContaining('more than 1000 things at a time'));
    await client.close();
    await valise.close();
  });

  it('Session state over the limit is refused, and the result still arrives', async () => {
    const id = 'sess-1';
    let state = 'small';
    const { client, valise } = await hostile(({ method }) =>
      method === 'sessions/create'
        ? { session: { sessionId: id, state } }
        : { content: [{ type: 'text', text: 'done' }], _meta: { [SESSION]: { sessionId: id, state } } },
    );
    const refused: string[] = [];
    valise.on('session-refused', ({ reason }) => refused.push(reason));
    const session = await valise.sessions(client).create({ label: 'mine' });
    state = 'x'.repeat(1024 * 1024 + 1);
    const answer = await session.run(() => client.callTool({ name: 'any' }));
    expect(answer.content).toEqual([{ type: 'text', text: 'done' }]);
    expect(refused).toEqual(['its state is too large']);
    await expect(valise.sessions(client).create()).rejects.toMatchObject({ code: 'request-failed' });
    await client.close();
    await valise.close();
  });

  it('A client stops reading a session list that has no end', async () => {
    let pages = 0;
    const { client, errors, valise } = await hostile(() => ({
      sessions: Array.from({ length: 5000 }, (_, n) => ({ sessionId: `sess-${pages}-${n}` })),
      nextCursor: `page-${++pages}`,
    }));
    expect(await valise.sessions(client).list()).toHaveLength(10_000);
    expect(pages).toBe(2);
    expect(errors).toContainEqual(expect.stringContaining('more than 10000 sessions'));
    await client.close();
    await valise.close();
  });

  it.each([5000, 100_000])(
    'Event ids of %i characters are not stored, and the host is warned once',
    async (length) => {
      const http = createServer(async (request, response) => {
        if (request.method === 'GET') {
          response.writeHead(200, { 'content-type': 'text/event-stream' });
          const data = JSON.stringify({ jsonrpc: '2.0', method: 'notifications/tools/list_changed' });
          for (let n = 0; n < 3; n++) response.write(`id: ${n}${'x'.repeat(length)}\ndata: ${data}\n\n`);
          return;
        }
        let text = '';
        for await (const chunk of request) text += chunk;
        const { id, params } = JSON.parse(text) as { id?: unknown; params?: { protocolVersion: string } };
        if (id === undefined) return void response.writeHead(202).end();
        const result = {
          protocolVersion: params?.protocolVersion,
          capabilities: { tools: { listChanged: true } },
          serverInfo: { name: 'hostile', version: '1' },
        };
        response.writeHead(200, { 'content-type': 'application/json', 'mcp-session-id': 'mine' });
        response.end(JSON.stringify({ jsonrpc: '2.0', id, result }));
      }).listen(0, '127.0.0.1');
      await once(http, 'listening');
      const store = memoryStore();
      const valise = await openValise({ store });
      const warnings: string[] = [];
      valise.on('warning', ({ what }) => warnings.push(what));
      const client = new Client({ name: 'me', version: '1' }, { versionNegotiation: { mode: 'legacy' } });
      let heard = 0;
      client.setNotificationHandler('notifications/tools/list_changed', () => void heard++);
      const url = `http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp`;
      await valise.connect(client, url);
      await vi.waitFor(() => expect(heard).toBe(3));
      expect(warnings).toEqual([
        expect.stringMatching(/position in the stream is not stored.*4096 characters/),
      ]);
      await client.close();
      await valise.close();
      const { keys } = await store.list('');
      const kept = await Promise.all(keys.map((key) => store.get(key)));
      expect(JSON.stringify(kept)).not.toContain('xxx');
      http.closeAllConnections();
      http.close();
    },
  );

  it('A server introduction that is too large is not stored, and the host is warned', async () => {
    const server = await rawServer(() => undefined, {
      capabilities: { experimental: { much: { text: 'x'.repeat(1_100_000) } } },
    });
    const store = memoryStore();
    const valise = await openValise({ store });
    const warnings: string[] = [];
    valise.on('warning', ({ what }) => warnings.push(what));
    const client = new Client({ name: 'me', version: '1' }, { versionNegotiation: { mode: 'legacy' } });
    await valise.connect(client, server.url);
    expect(warnings).toEqual([expect.stringMatching(/introduction of the server is larger than 1 MiB/)]);
    expect(JSON.stringify(await store.list('')).includes('connection')).toBe(false);
    await client.close();
    await valise.close();
    await server.close();
  });

  it.each([
    ['more tools than are remembered', 1003, ''],
    ['tools with names of any length', 3, 'x'.repeat(2000)],
  ])(
    'A client lists all tools of a server with %s, and the host is warned about the rest',
    async (_, length, name) => {
      const annotations = { resourceAllocation: true };
      const { client, valise } = await hostile(() => ({
        tools: Array.from({ length }, (_, n) => ({
          name: `tool-${n}${name}`,
          inputSchema: { type: 'object' },
          annotations,
        })),
      }));
      const warnings: string[] = [];
      valise.on('warning', ({ what }) => warnings.push(what));
      expect((await client.listTools()).tools).toHaveLength(length);
      expect(warnings).toEqual([expect.stringContaining('3 are not remembered')]);
      await client.close();
      await valise.close();
    },
  );

  it.each([
    ['contexts that differ', 1000, (n: number) => ({ requestState: `${n}` })],
    ['one context', 100, () => ({ requestState: 'same' })],
  ])(
    'Calls continue if questions with %s are too many to track, and the host is warned',
    async (_, most, state) => {
      let asked = 0;
      const complete = { resultType: 'complete', ttlMs: 0, cacheScope: 'private' };
      const about = { capabilities: { tools: {} }, serverInfo: { name: 'hostile', version: '1' } };
      const question = {
        method: 'elicitation/create',
        params: { message: 'Name?', requestedSchema: { type: 'object', properties: {} } },
      };
      const server = await rawServer(({ message: { id, method } }) => {
        const result =
          method === 'server/discover'
            ? { ...complete, ...about, supportedVersions: ['2026-07-28'] }
            : method === 'tools/list'
              ? { ...complete, tools: [] }
              : { resultType: 'input_required', inputRequests: { a: question }, ...state(asked++) };
        return JSON.stringify({ jsonrpc: '2.0', id, result });
      });
      const valise = await openValise({ store: memoryStore() });
      const warnings: string[] = [];
      valise.on('warning', ({ what }) => warnings.push(what));
      const host = askable('v2', 'modern', () => {
        throw new LeaveOpen();
      });
      await valise.connect(host, server.url, { resume: false });
      const ids: string[] = [];
      for (let n = 0; n < most + 3; n++) {
        await callText(host, 'any', { n }).catch(() => undefined);
        // Otherwise the limit of what is kept would come first.
        for (const { id } of await valise.pending.list()) {
          ids.push(id);
          await valise.pending.drop(id);
        }
      }
      expect(ids).toHaveLength(most + 3);
      expect(warnings).toHaveLength(3);
      for (const n of [0, 1, 2]) expect(warnings[n]).toContain(`${ids[n]} will still be listed`);
      await host.close();
      await valise.close();
      await server.close();
    },
  );
});
