import { AsyncLocalStorage } from 'node:async_hooks';
import type { RequestListener } from 'node:http';
import { Client } from '@modelcontextprotocol/client';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, inputRequired, McpServer } from '@modelcontextprotocol/server';
import { openValise } from 'mcp-valise/client';
import { memoryStore } from 'mcp-valise/store';
import { afterEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { endServers, listen } from '../server/http-stage.ts';

afterEach(endServers);

/** A server without Valise: one tool that asks, and one that does not. */
const build = (): McpServer => {
  const server = new McpServer({ name: 'test', version: '1.0.0' });
  const requestedSchema = { type: 'object' as const, properties: {} };
  server.registerTool('ask', {}, async () =>
    inputRequired({ inputRequests: { who: inputRequired.elicit({ message: 'Who?', requestedSchema }) } }),
  );
  server.registerTool('plain', {}, async () => ({ content: [{ type: 'text', text: 'plain' }] }));
  return server;
};

describe.each(['legacy', 'modern'] as const)('a client without the ability to answer (%s)', (era) => {
  const connect = async (capabilities: object) => {
    const url = await listen(toNodeHandler(createMcpHandler(build)) as RequestListener);
    const valise = await openValise({ store: memoryStore(), allowLocal: true });
    const mode = era === 'modern' ? { pin: '2026-07-28' } : 'legacy';
    const client = new Client(
      { name: 'host', version: '1.0.0' },
      { capabilities, versionNegotiation: { mode: mode as 'legacy' } },
    );
    await valise.connect(client, url);
    onTestFinished(() => client.close());
    return { client, valise };
  };

  it('A client that cannot be asked gets no async context for its calls', async () => {
    const { client } = await connect({});
    const run = vi.spyOn(AsyncLocalStorage.prototype, 'run');
    onTestFinished(() => void run.mockRestore());
    await client.callTool({ name: 'plain' });
    const courses = run.mock.calls.length;
    const { client: askable } = await connect({ elicitation: {} });
    run.mockClear();
    await askable.callTool({ name: 'plain' });
    // The server's process is this one, too, and has contexts of its own.
    expect(run.mock.calls.length).toBeGreaterThan(courses);
  });

  it('A client that cannot be asked has nothing pending if the server asks anyway', async () => {
    const { client, valise } = await connect({});
    const ended = await client.callTool({ name: 'ask' }).catch((error: unknown) => error);
    expect(ended).toSatisfy((end) => end instanceof Error || (end as { isError?: boolean }).isError === true);
    expect(await valise.pending.list()).toEqual([]);
  });
});
