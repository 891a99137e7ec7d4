import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { Client as ClientV2 } from '@modelcontextprotocol/client';
import { StdioClientTransport as StdioV2 } from '@modelcontextprotocol/client/stdio';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport as StdioV1 } from '@modelcontextprotocol/sdk/client/stdio.js';
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { acceptedContent, createMcpHandler, inputRequired, McpServer } from '@modelcontextprotocol/server';
import { generateKey } from 'mcp-valise/seal';
import { describe, expect, it, onTestFinished } from 'vitest';
import { z } from 'zod';
import { folder, serveExample, VALISE, valise } from './valise.ts';

type Client = ClientV2;
const everything = join(
  import.meta.dirname,
  '../../node_modules/@modelcontextprotocol/server-everything/dist/index.js',
);

const HOSTS = {
  v1: (command: string, args: string[]) => ({
    client: new ClientV1(
      { name: 'host', version: '1.0.0' },
      { capabilities: { roots: {} } },
    ) as unknown as Client,
    transport: new StdioV1({ command, args, stderr: 'ignore' }),
  }),
  v2: (command: string, args: string[]) => ({
    client: new ClientV2({ name: 'host', version: '1.0.0' }, { capabilities: { roots: {} } }),
    transport: new StdioV2({ command, args, stderr: 'ignore' }),
  }),
  'v2 auto': (command: string, args: string[]) => ({
    client: new ClientV2(
      { name: 'host', version: '1.0.0' },
      { capabilities: { roots: {} }, versionNegotiation: { mode: 'auto' } },
    ),
    transport: new StdioV2({ command, args, stderr: 'ignore' }),
  }),
};

async function host(major: keyof typeof HOSTS, command: string, args: string[]): Promise<Client> {
  const { client, transport } = HOSTS[major](command, args);
  await client.connect(transport as StdioV2);
  onTestFinished(() => client.close());
  return client;
}

/** What a host can see of a server. */
async function look(client: Client): Promise<unknown> {
  const capabilities = client.getServerCapabilities();
  return {
    capabilities,
    version: client.getServerVersion(),
    instructions: client.getInstructions(),
    tools: (await client.listTools()).tools,
    resources: (await client.listResources()).resources,
    templates: (await client.listResourceTemplates()).resourceTemplates,
    prompts: (await client.listPrompts()).prompts,
    echo: await client.callTool({ name: 'echo', arguments: { message: 'hi' } }),
    image: await client.callTool({ name: 'get-tiny-image', arguments: {} }),
    wrong: await client.callTool({ name: 'echo', arguments: {} }).catch((error: Error) => error.message),
    unknown: await client.getPrompt({ name: 'nobody' }).catch((error: Error) => error.message),
  };
}

describe.each(['v1', 'v2', 'v2 auto'] as const)('valise connect with an SDK client (%s) as host', (major) => {
  it('shows server-everything as the host sees it without the bridge', async () => {
    const direct = await host(major, process.execPath, [everything, 'stdio']);
    const bridged = await host(major, process.execPath, [
      VALISE,
      'connect',
      `stdio:${process.execPath} ${everything} stdio`,
      '--store',
      'memory:',
    ]);
    expect(await look(bridged)).toEqual(await look(direct));
  });

  it('keeps state for a host that knows of none, across its restarts', async () => {
    const { port } = await serveExample(['shop']);
    const store = `sqlite:${join(await folder(), 'state.db')}`;
    const args = [
      VALISE,
      'connect',
      `http://shop.example.com:${port}/mcp`,
      '--resolve',
      `shop.example.com:${port}:127.0.0.1`,
      '--store',
      store,
    ];
    const first = await host(major, process.execPath, args);
    await first.callTool({ name: 'remember', arguments: { name: 'size', value: 'L' } });
    await first.callTool({ name: 'add_item', arguments: { item: 'book' } });
    expect(await first.callTool({ name: 'view_cart', arguments: {} })).toMatchObject({
      structuredContent: { items: ['book'] },
    });
    await first.close();
    const second = await host(major, process.execPath, args);
    expect(await second.callTool({ name: 'recall', arguments: { name: 'size' } })).toMatchObject({
      content: [{ text: 'L' }],
    });
    const added = await second.callTool({ name: 'add_item', arguments: { item: 'pen' } });
    expect(added).toMatchObject({ structuredContent: { items: ['book', 'pen'] } });
    // What Valise keeps is not for the model to read.
    expect(JSON.stringify(added)).not.toMatch(/dev\.valise\/state|modelcontextprotocol\.io\/state/);
  });
});

describe('valise connect', () => {
  it('prints the configuration of a host', async () => {
    const { stdout } = await valise(['connect', '--print-config', 'claude', 'https://shop.example.com/mcp']);
    expect(JSON.parse(stdout)).toEqual({
      mcpServers: {
        'shop.example.com': {
          command: 'npx',
          args: expect.arrayContaining(['-y', 'mcp-valise-cli', 'connect', 'https://shop.example.com/mcp']),
        },
      },
    });
    const code = await valise(['connect', '--print-config', 'vscode', 'https://shop.example.com/mcp']);
    expect(JSON.parse(code.stdout)).toMatchObject({ servers: { 'shop.example.com': { type: 'stdio' } } });
  });

  it('gives a host that knows of none a session of its own, by name', async () => {
    const { url } = await serveExample(['notebook'], { VALISE_KEYS: generateKey() });
    const store = `sqlite:${join(await folder(), 'state.db')}`;
    const args = [VALISE, 'connect', url, '--session', 'diary', '--store', store];
    for (const text of ['one', 'two']) {
      const client = await host('v1', process.execPath, args);
      await client.callTool({ name: 'notebook_append', arguments: { text } });
      await client.close();
    }
    const client = await host('v2 auto', process.execPath, args);
    expect(await client.callTool({ name: 'notebook_read', arguments: {} })).toMatchObject({
      content: [{ text: 'one\ntwo' }],
    });
  });

  it.each(['v1', 'v2'] as const)(
    'leads a host of the older era (%s) to a server that speaks only the newer one',
    async (major) => {
      const handler = createMcpHandler(
        () => {
          const server = new McpServer({ name: 'newer', version: '1.0.0' }, { instructions: 'be kind' });
          server.registerTool('greet', { inputSchema: z.object({}) }, async (_args, context) => {
            const name = acceptedContent<{ name: string }>(context.mcpReq.inputResponses, 'name');
            if (name) return { content: [{ type: 'text', text: `Hello ${name.name}` }] };
            const requestedSchema = {
              type: 'object' as const,
              properties: { name: { type: 'string' as const } },
              required: ['name'],
            };
            return inputRequired({
              inputRequests: { name: inputRequired.elicit({ message: 'Who are you?', requestedSchema }) },
            });
          });
          return server;
        },
        { legacy: 'reject' },
      );
      const server = createServer(toNodeHandler(handler) as RequestListener).listen(0, '127.0.0.1');
      onTestFinished(() => {
        server.closeAllConnections();
        server.close();
      });
      await once(server, 'listening');
      const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
      const { client, transport } = HOSTS[major](process.execPath, [
        VALISE,
        'connect',
        url,
        '--store',
        'memory:',
      ]);
      client.registerCapabilities({ elicitation: {} });
      const answer = async () => ({ action: 'accept' as const, content: { name: 'Ada' } });
      if (major === 'v2') client.setRequestHandler('elicitation/create', answer);
      else (client as unknown as ClientV1).setRequestHandler(ElicitRequestSchema, answer);
      await client.connect(transport as StdioV2);
      onTestFinished(() => client.close());
      expect(client.getServerVersion()).toMatchObject({ name: 'newer' });
      expect(client.getInstructions()).toBe('be kind');
      expect((await client.listTools()).tools.map(({ name }) => name)).toEqual(['greet']);
      expect(await client.callTool({ name: 'greet', arguments: {} })).toMatchObject({
        content: [{ text: 'Hello Ada' }],
      });
      await client.ping();
    },
  );

  it('says which --resolve was of no use', async () => {
    const { url } = await serveExample(['shop']);
    const unused = ['--resolve', 'nosuch.example.com:443:127.0.0.1'];
    const { code, stderr } = await valise(['connect', url, '--store', 'memory:', ...unused]);
    expect({ code, stderr }).toEqual({
      code: 0,
      stderr: expect.stringContaining('--resolve nosuch.example.com:443 was not used'),
    });
  });

  it('answers a host with the reason when the server cannot be reached', async () => {
    await expect(
      host('v1', process.execPath, [VALISE, 'connect', 'http://127.0.0.1:2/mcp', '--store', 'memory:']),
    ).rejects.toThrow(/valise connect: The server cannot be reached/);
  });
});
