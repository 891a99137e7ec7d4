import { Client as ClientV2, InMemoryTransport as MemoryV2 } from '@modelcontextprotocol/client';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { InMemoryTransport as MemoryV1 } from '@modelcontextprotocol/sdk/inMemory.js';
import { McpServer as ServerV1 } from '@modelcontextprotocol/sdk/server/mcp.js';
import { McpServer as ServerV2 } from '@modelcontextprotocol/server';
import { openValise } from 'mcp-valise/client';
import { createValise } from 'mcp-valise/server';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';

const info = { name: 'probe', version: '1.0.0' };

describe.each([
  { major: 'v1', Client: ClientV1, Server: ServerV1, Memory: MemoryV1 },
  { major: 'v2', Client: ClientV2, Server: ServerV2, Memory: MemoryV2 },
])('an SDK $major client and server with Valise on both sides', ({ Client, Server, Memory }) => {
  it('An SDK client calls a tool of an SDK server unchanged', async () => {
    const server = createValise({ name: 'probe' }).install(new Server(info) as ServerV2);
    server.registerTool('echo', { inputSchema: z.object({ text: z.string() }) }, async ({ text }) => ({
      content: [{ type: 'text', text }],
    }));
    const [near, far] = Memory.createLinkedPair();
    await server.connect(far);
    const client = new Client(info) as ClientV2;
    await (await openValise({ store: 'memory:' })).connect(client, near);
    expect((await client.listTools()).tools.map((tool) => tool.name)).toEqual(['echo']);
    expect(await client.callTool({ name: 'echo', arguments: { text: 'hi' } })).toMatchObject({
      content: [{ type: 'text', text: 'hi' }],
    });
    await client.close();
  });
});
