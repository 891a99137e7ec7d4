import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Client as ClientV2, StreamableHTTPClientTransport as HttpV2 } from '@modelcontextprotocol/client';
import { StdioClientTransport as StdioV2 } from '@modelcontextprotocol/client/stdio';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as HttpV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server';
import { type ClientValise, openValise, type Store, type TransportOptions } from 'mcp-valise/client';
import { CORE } from 'mcp-valise/internal';
import { generateKey } from 'mcp-valise/seal';
import { createValise } from 'mcp-valise/server';
import { memoryStore } from 'mcp-valise/store';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { z } from 'zod';
import { ask, openVault, signIn, type Vault } from './vault.ts';

const text = (words: string) => ({ content: [{ type: 'text' as const, text: words }] });

/** A server that keeps state with the client, asks, needs a session, and wants an argument as a header. */
async function openServer() {
  const valise = createValise({
    name: 'door',
    keys: generateKey(),
    sessions: { mode: 'sealed' },
    events: {},
  });
  valise.sessions.require('note');
  const build = () => {
    const server = valise.install(new McpServer({ name: 'door', version: '1.0.0' }));
    server.registerTool('count', { inputSchema: z.object({}) }, async () => {
      const { server: state } = valise.jar;
      const count = Number(state.get('count') ?? 0) + 1;
      state.set('count', count);
      return text(String(count));
    });
    server.registerTool('note', { inputSchema: z.object({}) }, async () => {
      const session = valise.session();
      const count = Number(session?.get('count') ?? 0) + 1;
      session?.set('count', count);
      return text(String(count));
    });
    server.registerTool(
      'greet',
      { inputSchema: z.object({}) },
      valise.flow(async (_, flow) => {
        const { name } = await flow.ask('name', { message: 'Who?', schema: z.object({ name: z.string() }) });
        return text(`Hello ${name}`);
      }),
    );
    server.registerTool(
      'region',
      { inputSchema: z.object({ region: z.string().meta({ 'x-mcp-header': 'Region' }) }) },
      async ({ region }) => text(region),
    );
    return server;
  };
  const handler = createMcpHandler(build, { legacy: 'stateless' });
  const listener = toNodeHandler(valise.http(handler));
  const headers: Record<string, unknown>[] = [];
  const http = createServer((request, response) => {
    headers.push(request.headers);
    void listener(request as never, response);
  }).listen(0, '127.0.0.1');
  await once(http, 'listening');
  return {
    url: `http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp`,
    headers,
    async close() {
      http.closeAllConnections();
      http.close();
      await handler.close();
      await valise.close();
    },
  };
}

const info = { name: 'host', version: '1.0.0' };
const options = { capabilities: { elicitation: { form: {} } } };
const HOSTS = [
  { host: 'SDK v1', Http: HttpV1, make: () => new ClientV1(info, options) as unknown as ClientV2 },
  { host: 'SDK v2, older era', Http: HttpV2, make: () => new ClientV2(info, options) },
  {
    host: 'SDK v2, newer era',
    Http: HttpV2,
    make: () => new ClientV2(info, { ...options, versionNegotiation: { mode: 'auto' } }),
  },
];

let store: Store;
let opened: { valise: ClientValise; client?: ClientV2 }[];
beforeEach(() => {
  store = memoryStore();
  opened = [];
  vi.spyOn(console, 'warn').mockImplementation(() => {});
});
afterEach(async () => {
  vi.restoreAllMocks();
  for (const { client, valise } of opened) {
    await client?.close();
    await valise.close();
  }
});

const DOORS = ['transport', 'options'] as const;

describe.each(HOSTS.flatMap((host) => DOORS.map((door) => ({ ...host, door }))))(
  '$door() in a host on $host',
  ({ make, Http, door }) => {
    /** The host starts: another Valise on the same store, and a client of its own. */
    async function start(url: string, settings: TransportOptions = {}): Promise<ClientV2> {
      const valise = await openValise({ store, allowLocal: true });
      const client = make();
      opened.push({ valise, client });
      const schema = client instanceof ClientV1 ? ElicitRequestSchema : 'elicitation/create';
      client.setRequestHandler(schema as 'elicitation/create', async () => ({
        action: 'accept',
        content: { name: 'Ada' },
      }));
      const transport =
        door === 'transport'
          ? valise.transport(url, settings)
          : new Http(new URL(url), { ...(valise.options(url, settings) as object) });
      await client.connect(transport as never);
      return client;
    }
    /** What a crash leaves: nothing is said to the server. */
    const restart = async (client: ClientV2, url: string, settings: TransportOptions = {}) => {
      await client.close();
      return start(url, settings);
    };
    const call = async (client: ClientV2, name: string, args = {}): Promise<string> => {
      const { content } = await client.callTool({ name, arguments: args });
      return (content as { text: string }[]).map((one) => one.text).join();
    };

    describe('at a server with Valise', () => {
      let server: Awaited<ReturnType<typeof openServer>>;
      beforeEach(async () => {
        server = await openServer();
      });
      afterEach(() => server.close());

      it('The transport carries state between calls and across a restart of the host', async () => {
        const client = await start(server.url);
        expect(await call(client, 'count')).toBe('1');
        expect(await call(client, 'count')).toBe('2');
        const next = await restart(client, server.url);
        expect(await call(next, 'count')).toBe('3');
      });

      it('The transport continues in the same session after a restart of the host', async () => {
        const client = await start(server.url);
        expect(await call(client, 'note')).toBe('1');
        const next = await restart(client, server.url);
        expect(await call(next, 'note')).toBe('2');
        const other = await start(server.url, { sessionName: 'another conversation' });
        expect(await call(other, 'note')).toBe('1');
      });

      it('With ownSession, the transport has its own session, which ends with the transport', async () => {
        if (door === 'options') return;
        const one = await start(server.url, { ownSession: true });
        const other = await start(server.url, { ownSession: true });
        expect(await call(one, 'note')).toBe('1');
        expect(await call(one, 'note')).toBe('2');
        expect(await call(other, 'note')).toBe('1');
        const ended: string[] = [];
        opened[0]?.valise.on('session-ended', ({ reason }) => void ended.push(reason));
        await one.close();
        expect(ended).toEqual(['deleted']);
      });

      it('The transport lets the server ask the user', async () => {
        expect(await call(await start(server.url), 'greet')).toBe('Hello Ada');
      });

      it('The transport hides from the host what it carries', async () => {
        const client = await start(server.url);
        const result = await client.callTool({ name: 'count', arguments: {} });
        expect(JSON.stringify(result)).not.toMatch(/valise|state\/|sessionId/);
      });

      it('The transport sends an argument that a tool requires as a header', async () => {
        const client = await start(server.url);
        expect(await call(client, 'region', { region: 'eu' })).toBe('eu');
      });
    });

    describe('at a server that wants a sign-in', () => {
      let vault: Vault;
      beforeEach(async () => {
        vault = await openVault();
      });
      afterEach(() => vault.close());

      it('The transport signs in once, and resumes the session after a restart of the host', async () => {
        const redirect = vi.fn((page: URL) => signIn(page, { name: 'alice' }).then(() => undefined));
        const settings = { auth: { redirect }, fetch: vault.fetch };
        const client = await start(vault.url, settings);
        expect(await ask(client, 'whoami')).toBe('alice');
        expect(await ask(client, 'increment')).toBe('1');
        vault.sent.length = 0;
        const next = await restart(client, vault.url, settings);
        expect(await ask(next, 'increment')).toBe('2');
        expect(redirect).toHaveBeenCalledTimes(1);
        expect(vault.short()).not.toContain('initialize');
      });
    });
  },
);

describe('options()', () => {
  it.each([
    { resume: true, count: '2' },
    { resume: false, count: '1' },
  ])(
    'With resume: $resume, a host that ends its session on close finds $count',
    async ({ resume, count }) => {
      const vault = await openVault();
      const start = async () => {
        const valise = await openValise({ store, allowLocal: true });
        const client = new ClientV2(info);
        opened.push({ valise, client });
        const auth = { redirect: (page: URL) => signIn(page, { name: 'alice' }).then(() => undefined) };
        const transport = new HttpV2(new URL(vault.url), {
          ...valise.options(vault.url, { auth, resume }),
        } as object);
        await client.connect(transport);
        return { client, transport };
      };
      const { client, transport } = await start();
      expect(await ask(client, 'increment')).toBe('1');
      await transport.terminateSession();
      await client.close();
      expect(await ask((await start()).client, 'increment')).toBe(count);
      for (const one of opened.splice(0)) {
        await one.client?.close();
        await one.valise.close();
      }
      await vault.close();
    },
  );
});

describe('transport()', () => {
  it('transport() sets the headers of 2026-07-28 for a client that sets none', async () => {
    const server = await openServer();
    const valise = await openValise({ store, allowLocal: true });
    opened.push({ valise });
    const transport = valise.transport(server.url, { sessionName: false });
    const answers = new Map<unknown, (message: unknown) => void>();
    transport.onmessage = (message: { readonly id: unknown }) => answers.get(message.id)?.(message);
    await transport.start();
    let id = 0;
    const request = (method: string, params = {}): Promise<{ readonly result?: unknown }> =>
      new Promise((resolve, reject) => {
        answers.set(++id, resolve as never);
        const _meta = {
          [CORE.protocolVersion]: '2026-07-28',
          [CORE.clientCapabilities]: {},
          [CORE.clientInfo]: info,
        };
        transport.send({ jsonrpc: '2.0', id, method, params: { ...params, _meta } }).catch(reject);
      });
    await request('server/discover');
    const { result } = await request('tools/call', { name: 'region', arguments: { region: 'Zürich' } });
    expect(result).toMatchObject(text('Zürich'));
    expect(server.headers.at(-1)).toMatchObject({
      'mcp-method': 'tools/call',
      'mcp-name': 'region',
      'mcp-param-region': expect.stringMatching(/^=\?base64\?/),
      'mcp-protocol-version': '2026-07-28',
    });
    await transport.close();
    await server.close();
  });

  it('transport() keeps its session if the host initializes twice', async () => {
    const vault = await openVault();
    const valise = await openValise({ store, allowLocal: true });
    opened.push({ valise });
    const redirect = (page: URL) => signIn(page, { name: 'alice' }).then(() => undefined);
    const transport = valise.transport(vault.url, { auth: { redirect }, fetch: vault.fetch });
    const answers: { readonly id: unknown; readonly result?: object }[] = [];
    transport.onmessage = (message) => answers.push(message as (typeof answers)[number]);
    await transport.start();
    const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: info };
    for (const id of [1, 2]) {
      await transport.send({ jsonrpc: '2.0', id, method: 'initialize', params });
      await vi.waitFor(() => expect(answers).toContainEqual(expect.objectContaining({ id })));
      await transport.send({ jsonrpc: '2.0', method: 'notifications/initialized' });
    }
    expect(answers[1]?.result).toEqual(answers[0]?.result);
    expect(vault.short().filter((what) => what === 'initialize')).toHaveLength(2); // 401, then 200
    await transport.close();
    await vault.close();
  });

  it('transport() starts a server from a command and carries its state across a restart', async () => {
    const path = new URL('stdio-server.mjs', import.meta.url).pathname;
    const command = { command: process.execPath, args: [path] };
    const call = async (to: typeof command | StdioV2 = command) => {
      const valise = await openValise({ store, allowLocal: true });
      const client = new ClientV2(info);
      opened.push({ valise, client });
      await client.connect(valise.transport(to as never) as never);
      const { content } = await client.callTool({ name: 'any', arguments: {} });
      await client.close();
      await valise.close();
      return JSON.parse((content as { text: string }[])[0]?.text ?? '');
    };
    expect(await call()).toEqual([null, null]);
    expect(await call()).toEqual([null, { count: 1 }]);
    expect(await call(new StdioV2(command))).toEqual([null, { count: 2 }]);
  });

  it('transport() rejects unknown options and options that a command does not support', async () => {
    const valise = await openValise({ store });
    opened.push({ valise });
    expect(() => valise.transport('https://example.com/mcp', { sesion: 'x' } as never)).toThrow(/sesion/);
    expect(() => valise.options('https://example.com/mcp', { sessionName: '' })).toThrow(/sessionName/);
    expect(() => valise.transport({ command: 'node' }, { headers: {} })).toThrow(/headers/);
  });
});
