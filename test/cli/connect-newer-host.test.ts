import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createInterface } from 'node:readline';
import { json } from 'node:stream/consumers';
import { Client, type ClientOptions } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { describe, expect, it, onTestFinished } from 'vitest';
import { OLDER_SERVER, olderServer } from './older-server.ts';
import { VALISE, valise } from './valise.ts';

const PINNED = { versionNegotiation: { mode: { pin: '2026-07-28' } } } as const;
const LOG_LEVEL = 'io.modelcontextprotocol/logLevel';

/** Where the older server is, by how it is reached. */
const TARGETS = {
  stdio: async () => `stdio:${[process.execPath, ...OLDER_SERVER].join(' ')}`,
  HTTP: serveOlder,
};

/** The older server over HTTP, with sessions as the v1 SDK makes them. */
async function serveOlder(): Promise<string> {
  const transports = new Map<string, StreamableHTTPServerTransport>();
  const server = createServer(async (request, response) => {
    const id = request.headers['mcp-session-id'];
    let transport = typeof id === 'string' ? transports.get(id) : undefined;
    if (!transport) {
      const fresh = new StreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        onsessioninitialized: (session) => void transports.set(session, fresh),
      });
      await olderServer().connect(fresh);
      transport = fresh;
    }
    await transport.handleRequest(request, response);
  }).listen(0, '127.0.0.1');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  await once(server, 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
}

function bridge(target: string, era: string): StdioClientTransport {
  const args = [VALISE, 'connect', target, '--store', 'memory:', '--era', era];
  return new StdioClientTransport({ command: process.execPath, args, stderr: 'ignore' });
}

/** A host that gives up where it is refused. */
async function pinned(
  target: string,
  options: ClientOptions = {},
  prepare: (client: Client) => void = () => {},
): Promise<Client> {
  const client = new Client({ name: 'host', version: '1.0.0' }, { ...options, ...PINNED });
  prepare(client);
  await client.connect(bridge(target, 'modern'));
  onTestFinished(() => client.close());
  expect(client.getProtocolEra()).toBe('modern');
  return client;
}

async function call(client: Client, name: string, args = {}): Promise<string> {
  const { content } = await client.callTool({ name, arguments: args });
  return (content as { text: string }[])[0]?.text ?? '';
}

/** The first notification of a kind, with a promise of it. */
function next(client: Client, method: 'notifications/message' | 'notifications/resources/updated') {
  return new Promise<Record<string, unknown>>((resolve) =>
    client.setNotificationHandler(method, ({ params }) => resolve(params as Record<string, unknown>)),
  );
}

describe.each(['stdio', 'HTTP'] as const)(
  'valise connect between a host pinned to 2026-07-28 and an older server over %s',
  (kind) => {
    it('shows what the server is and has', async () => {
      const client = await pinned(await TARGETS[kind]());
      expect(client.getServerVersion()).toEqual({ name: 'older', version: '1.2.3' });
      expect(client.getInstructions()).toBe('be patient');
      expect(client.getServerCapabilities()).toMatchObject({ tools: { listChanged: true }, prompts: {} });
      expect((await client.listTools()).tools.map(({ name }) => name)).toContain('add');
      expect(await call(client, 'add', { a: 2, b: 3 })).toBe('5');
      expect((await client.listPrompts()).prompts).toMatchObject([{ name: 'hello' }]);
      expect(await client.getPrompt({ name: 'hello', arguments: { who: 'Ada' } })).toMatchObject({
        messages: [{ content: { text: 'Hello Ada' } }],
      });
      expect((await client.listResources()).resources).toMatchObject([{ name: 'memo' }, { name: 'gone' }]);
      expect((await client.listResourceTemplates()).resourceTemplates).toEqual([]);
      expect(await client.readResource({ uri: 'memo://one' })).toMatchObject({ contents: [{ text: 'one' }] });
    });

    it('takes the envelope off, and turns codes that are no more', async () => {
      const client = await pinned(await TARGETS[kind]());
      expect(await call(client, 'meta')).not.toContain('io.modelcontextprotocol');
      await expect(client.readResource({ uri: 'memo://gone' })).rejects.toMatchObject({ code: -32602 });
    });

    it('asks the host in the middle of a call, one question after the other', async () => {
      const asked: string[] = [];
      const client = await pinned(await TARGETS[kind](), { capabilities: { elicitation: {} } }, (host) =>
        host.setRequestHandler('elicitation/create', ({ params }) => {
          asked.push(params.message);
          return { action: 'accept', content: { name: 'Ada', city: 'London' } };
        }),
      );
      expect(await call(client, 'greet')).toBe('Hello Ada of London');
      expect(asked).toEqual(['Your name?', 'Your city?']);
      // What the host refuses, the server hears of as well.
      client.setRequestHandler('elicitation/create', () => ({ action: 'decline' }));
      expect(await call(client, 'greet')).toBe('not told: decline');
    });

    it('asks several things that the server wants to know at once', async () => {
      const capabilities = { elicitation: {}, roots: {}, sampling: {} };
      const client = await pinned(await TARGETS[kind](), { capabilities }, (host) => {
        host.setRequestHandler('elicitation/create', () => ({ action: 'accept', content: { name: 'Ada' } }));
        host.setRequestHandler('roots/list', () => ({ roots: [{ uri: 'file:///home' }] }));
        host.setRequestHandler('sampling/createMessage', () => ({
          role: 'assistant' as const,
          model: 'parrot',
          content: { type: 'text' as const, text: 'hi' },
        }));
      });
      expect(await call(client, 'gather')).toBe('Ada in file:///home says hi');
    });

    it('says to a server that asks outside of any call that it cannot', async () => {
      const client = await pinned(await TARGETS[kind](), { capabilities: { elicitation: {} } }, (host) =>
        host.setRequestHandler('elicitation/create', () => ({ action: 'accept', content: { name: 'Ada' } })),
      );
      await client.listen({ resourceSubscriptions: ['memo://ask'] });
      expect(await call(client, 'asked')).toMatch(/asks only during tools\/call/);
    });

    it('hands on progress, and what is logged where the host asked for it', async () => {
      const client = await pinned(await TARGETS[kind]());
      const seen: number[] = [];
      await client.callTool(
        { name: 'count', arguments: {} },
        {
          onprogress: ({ progress }) => {
            seen.push(progress);
            void call(client, 'step');
          },
        },
      );
      expect(seen).toEqual([1, 2]);
      const unasked: unknown[] = [];
      client.setNotificationHandler('notifications/message', (message) => void unasked.push(message));
      expect(await call(client, 'shout')).toBe('not set');
      const logged = next(client, 'notifications/message');
      const loud = { name: 'shout', arguments: {}, _meta: { [LOG_LEVEL]: 'info' } };
      expect(await client.callTool(loud)).toMatchObject({ content: [{ text: 'info' }] });
      expect(await logged).toMatchObject({ data: 'hear, hear' });
      expect(unasked).toEqual([]);
    });

    it('tells a listener that a list or a resource has changed, and nobody after it has ended', async () => {
      const client = await pinned(await TARGETS[kind]());
      const subscription = await client.listen({
        toolsListChanged: true,
        resourceSubscriptions: ['memo://one'],
      });
      expect(subscription.honoredFilter).toEqual({
        toolsListChanged: true,
        resourceSubscriptions: ['memo://one'],
      });
      const changed = new Promise<unknown>((resolve) =>
        client.setNotificationHandler('notifications/tools/list_changed', resolve),
      );
      await call(client, 'grow');
      expect(await changed).toMatchObject({
        params: { _meta: { 'io.modelcontextprotocol/subscriptionId': expect.stringMatching(/^listen:/) } },
      });
      expect((await client.listTools()).tools.map(({ name }) => name)).toContain('grown');
      const updated = next(client, 'notifications/resources/updated');
      expect(await call(client, 'touch')).toBe('memo://one');
      expect(await updated).toMatchObject({ uri: 'memo://one' });
      await subscription.close();
      await expect.poll(() => call(client, 'touch')).toBe('');
    });

    it('cancels', async () => {
      const client = await pinned(await TARGETS[kind]());
      const stop = new AbortController();
      const waiting = client.callTool({ name: 'wait', arguments: {} }, { signal: stop.signal });
      expect(await call(client, 'waiting')).toBe('it waits');
      stop.abort('enough');
      await expect(waiting).rejects.toThrow('enough');
      expect(await call(client, 'was_cancelled')).toBe('cancelled');
    });
  },
);

describe('valise connect and who falls back', () => {
  it('leaves a host that negotiates to the older era, unless told', async () => {
    const target = await TARGETS.stdio();
    const host = async (era: string): Promise<Client> => {
      const mode = { versionNegotiation: { mode: 'auto' as const } };
      const client = new Client({ name: 'host', version: '1.0.0' }, mode);
      await client.connect(bridge(target, era));
      onTestFinished(() => client.close());
      return client;
    };
    expect((await host('auto')).getProtocolEra()).toBe('legacy');
    expect((await host('modern')).getProtocolEra()).toBe('modern');
    const never = new Client({ name: 'host', version: '1.0.0' }, PINNED);
    await expect(never.connect(bridge(target, 'legacy'))).rejects.toThrow(/did not offer pinned/);
  });

  it('begins nothing in the older era at a server that did not say that it is older', async () => {
    const methods: unknown[] = [];
    const server = createServer(async (request, response) => {
      methods.push(((await json(request)) as { method?: unknown }).method);
      response.writeHead(503).end();
    }).listen(0, '127.0.0.1');
    onTestFinished(() => void server.close());
    await once(server, 'listening');
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
    await expect(pinned(url)).rejects.toThrow(/did not offer pinned/);
    expect(methods).toEqual(['server/discover']);
  });

  it('hands the era on in what it prints for a host', async () => {
    const url = 'https://shop.example.com/mcp';
    const { stdout } = await valise(['connect', '--print-config', 'claude', '--era', 'modern', url]);
    expect(JSON.parse(stdout)).toMatchObject({
      mcpServers: {
        'shop.example.com': { args: ['-y', 'mcp-valise', 'connect', url, '--era', 'modern'] },
      },
    });
  });

  it('leads a host that speaks the newer era without asking for it', async () => {
    const target = await TARGETS.HTTP();
    const client = new Client({ name: 'host', version: '1.0.0' }, PINNED);
    const discover = {
      supportedVersions: ['2026-07-28'],
      capabilities: { tools: {} },
      ttlMs: 0,
      cacheScope: 'private' as const,
    };
    await client.connect(bridge(target, 'auto'), { prior: { kind: 'modern', discover } });
    onTestFinished(() => client.close());
    expect(await call(client, 'add', { a: 1, b: 1 })).toBe('2');
  });

  it('leads a host that asks again after a refusal, and lets go of one that then falls back', async () => {
    const target = await TARGETS.stdio();
    const child = spawn(process.execPath, [VALISE, 'connect', target, '--store', 'memory:'], {
      stdio: ['pipe', 'pipe', 'ignore'],
    });
    onTestFinished(async () => {
      const gone = once(child, 'close');
      child.stdin.end();
      await gone;
    });
    const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    const ask = async (id: number, method: string, params: object): Promise<Record<string, unknown>> => {
      child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', id, method, params })}\n`);
      const { value } = await lines.next();
      return JSON.parse(value) as Record<string, unknown>;
    };
    const _meta = {
      'io.modelcontextprotocol/protocolVersion': '2026-07-28',
      'io.modelcontextprotocol/clientCapabilities': {},
    };
    expect(await ask(1, 'server/discover', { _meta })).toMatchObject({ id: 1, error: { code: -32601 } });
    expect(await ask(2, 'server/discover', { _meta })).toMatchObject({
      id: 2,
      result: { resultType: 'complete', supportedVersions: ['2026-07-28'], ttlMs: 0, cacheScope: 'private' },
    });
    expect(await ask(3, 'prompts/list', { _meta })).toMatchObject({ id: 3, result: { ttlMs: 0 } });
    const initialize = {
      protocolVersion: '2025-11-25',
      capabilities: {},
      clientInfo: { name: 'h', version: '1' },
    };
    expect(await ask(4, 'initialize', initialize)).toMatchObject({
      id: 4,
      result: { protocolVersion: '2025-11-25', serverInfo: { name: 'older' } },
    });
    child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', method: 'notifications/initialized' })}\n`);
    const { result } = await ask(5, 'prompts/list', {});
    expect(result).not.toHaveProperty('resultType');
    expect(result).toMatchObject({ prompts: [{ name: 'hello' }] });
  });
});
