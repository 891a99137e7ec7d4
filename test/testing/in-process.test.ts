import { Client as ClientV2 } from '@modelcontextprotocol/client';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server';
import { openValise } from 'mcp-valise/client';
import { createValise } from 'mcp-valise/server';
import { connectInProcess, handlerFetch, linkedTransports } from 'mcp-valise/testing';
import { describe, expect, it, onTestFinished } from 'vitest';
import { MAJORS } from '../server/majors.ts';

const INFO = { name: 'host', version: '1.0.0' };
const CLIENTS = [
  ['v1', () => new ClientV1(INFO) as unknown as ClientV2],
  ['v2', () => new ClientV2(INFO)],
] as const;
const CELLS = CLIENTS.flatMap(([client, make]) => MAJORS.map((server) => ({ client, make, server })));

const options = { name: 'counter', keys: 'ephemeral' } as const;

function counter(valise: ReturnType<typeof createValise>, Server: typeof McpServer = McpServer): McpServer {
  const server = valise.install(new Server({ name: 'counter', version: '1.0.0' }));
  server.registerTool('count', { description: 'Counts your calls' }, async () => {
    const { server: own } = valise.jar;
    const count = Number(own.get('count') ?? 0) + 1;
    own.set('count', count);
    return { content: [{ type: 'text', text: `call ${count}` }] };
  });
  return server;
}

async function clientValise() {
  const valise = await openValise({ store: 'memory:' });
  onTestFinished(() => valise.close());
  return valise;
}

describe('connectInProcess', () => {
  it.each(CELLS)(
    'carries state between a $client client and a $server.major server, and to a second client of that server',
    async ({ make, server }) => {
      const serverValise = createValise(options);
      const valise = await clientValise();
      for (const text of ['call 1', 'call 2']) {
        const client = make();
        await connectInProcess(valise, client, counter(serverValise, server.McpServer));
        expect(await client.callTool({ name: 'count' })).toMatchObject({ content: [{ text }] });
        await client.close();
      }
    },
  );

  it('connectInProcess keeps the state of servers with different names apart', async () => {
    const serverValise = createValise(options);
    const valise = await clientValise();
    for (const command of ['one', 'other']) {
      const client = new ClientV2(INFO);
      await connectInProcess(valise, client, counter(serverValise), { server: { command } });
      expect(await client.callTool({ name: 'count' })).toMatchObject({ content: [{ text: 'call 1' }] });
      await client.close();
    }
  });
});

describe('linkedTransports', () => {
  it('linkedTransports copy messages, close together, and refuse to send afterwards', async () => {
    const [near, far] = linkedTransports();
    const heard = new Promise<unknown>((resolve) => (far.onmessage = resolve));
    const closed = new Promise<void>((resolve) => (far.onclose = resolve));
    const message = { jsonrpc: '2.0', method: 'note', params: { list: [1] } };
    await near.send(message);
    message.params.list.push(2);
    expect(await heard).toEqual({ jsonrpc: '2.0', method: 'note', params: { list: [1] } });
    await near.close();
    await closed;
    for (const end of [near, far])
      await expect(end.send(message)).rejects.toMatchObject({ code: 'not-connected' });
  });
});

describe('handlerFetch', () => {
  it.each(['legacy', { pin: '2026-07-28' }] as const)(
    'reaches a web handler without a socket, in mode %j',
    async (mode) => {
      const serverValise = createValise(options);
      const fetch = handlerFetch(serverValise.http(createMcpHandler(() => counter(serverValise)).fetch));
      const valise = await clientValise();
      const client = new ClientV2(INFO, { versionNegotiation: { mode } });
      await valise.connect(client, 'https://counter.example.com/mcp', { fetch });
      for (const text of ['call 1', 'call 2'])
        expect(await client.callTool({ name: 'count' })).toMatchObject({ content: [{ text }] });
      await client.close();
    },
  );

  it('handlerFetch rejects an aborted request, and cancels the body of an aborted response', async () => {
    let cancelled: (reason: unknown) => void = () => undefined;
    const cancel = new Promise<unknown>((resolve) => (cancelled = resolve));
    const endless = new ReadableStream({ cancel: (reason) => cancelled(reason) });
    const never = handlerFetch(() => new Promise(() => undefined));
    const waiting = new AbortController();
    const pending = never('http://127.0.0.1/', { signal: waiting.signal });
    waiting.abort();
    await expect(pending).rejects.toMatchObject({ name: 'AbortError' });
    const streaming = new AbortController();
    const response = await handlerFetch(() => new Response(endless))('http://127.0.0.1/', {
      signal: streaming.signal,
    });
    const read = response.text();
    streaming.abort();
    await expect(read).rejects.toMatchObject({ name: 'AbortError' });
    await expect(cancel).resolves.toMatchObject({ name: 'AbortError' });
  });
});
