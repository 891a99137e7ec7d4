import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, inputRequired, McpServer } from '@modelcontextprotocol/server';
import { openValise } from 'mcp-valise/client';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { z } from 'zod';
import { type HostKind, sdkHost } from './sdk-hosts.ts';
import { folder, serveExample, VALISE } from './valise.ts';

/** A server without Valise that knows only the newer era, and asks. It is done with the answers when nobody waits any more. */
async function askingServer(answered = (): void => {}): Promise<string> {
  const requestedSchema = { type: 'object' as const, properties: { name: { type: 'string' as const } } };
  const build = () => {
    const server = new McpServer({ name: 'newer', version: '1.0.0' });
    server.registerTool('ask', { inputSchema: z.object({}) }, async (_, { mcpReq }) => {
      if (!mcpReq.inputResponses)
        return inputRequired({
          inputRequests: { name: inputRequired.elicit({ message: 'Who?', requestedSchema }) },
        });
      answered();
      if (!mcpReq.signal.aborted) await once(mcpReq.signal, 'abort');
      return { content: [] };
    });
    return server;
  };
  const handler = toNodeHandler(createMcpHandler(build, { legacy: 'reject' })) as RequestListener;
  const server = createServer(handler).listen(0, '127.0.0.1');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  await once(server, 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
}

/** A host in front of that server, and what waits in `valise pending`. */
async function stage(kind: HostKind, onAsked: () => unknown, target: string) {
  const store = `sqlite:${join(await folder(), 'state.db')}`;
  const command = [process.execPath, VALISE, 'connect', target, '--era', 'modern', '--store', store] as const;
  const host = await sdkHost(kind, [...command], {
    capabilities: { elicitation: {} },
    answers: { 'elicitation/create': onAsked },
  });
  const valise = await openValise({ store });
  onTestFinished(() => valise.close());
  const pending = () => valise.pending.list();
  const isEmpty = () =>
    vi.waitFor(async () => expect(await pending()).toEqual([]), { timeout: 20_000, interval: 100 });
  return { ...host, pending, isEmpty };
}

const ASK = { name: 'ask', arguments: {} };
const BUG = {
  name: 'update_work_item',
  arguments: { workItemId: 4522, fields: { 'System.State': 'Resolved' } },
};

describe('valise connect and what a cancelled call leaves for valise pending', { timeout: 60_000 }, () => {
  it.each(['v1', 'v2'] as const)('nothing, where a %s host of the older era is asked', async (kind) => {
    const stop = new AbortController();
    let kept: readonly unknown[] = [];
    const onAsked = async () => {
      kept = await pending();
      stop.abort();
      return { action: 'cancel' };
    };
    const { ask, pending, isEmpty } = await stage(kind, onAsked, await askingServer());
    await expect(ask('tools/call', ASK, { signal: stop.signal })).rejects.toThrow();
    expect(kept).toHaveLength(1);
    await isEmpty();
  });

  it.each([
    ['of its era', askingServer, ASK],
    ['with Valise that is older', async () => (await serveExample(['work-items', '--sdk', 'v1'])).url, BUG],
  ])('nothing, where a host of 2026-07-28 is asked by a server %s', async (_, serve, params) => {
    const cancel = () => ({ action: 'cancel' });
    const { client, pending, isEmpty } = await stage('v2 auto', cancel, await serve());
    expect(client.getProtocolEra()).toBe('modern');
    const { transport } = client;
    const send = vi.spyOn(transport as NonNullable<typeof transport>, 'send');
    const asking = await client.callTool(params, { allowInputRequired: true });
    expect(asking).toMatchObject({ resultType: 'input_required' });
    expect(await pending()).toHaveLength(1);
    const [{ id }] = send.mock.calls.at(-1) as unknown as [{ id: number }];
    await client.notification({ method: 'notifications/cancelled', params: { requestId: id } });
    await isEmpty();
  });

  it.each(['v1', 'v2', 'v2 auto'] as const)(
    'nothing, where the server has the answers of a %s host',
    async (kind) => {
      const stop = new AbortController();
      let kept: readonly unknown[] = [];
      const onAnswered = async () => {
        kept = await pending();
        stop.abort();
      };
      const onAsked = () => ({ action: 'accept', content: { name: 'Ada' } });
      const { ask, pending, isEmpty } = await stage(kind, onAsked, await askingServer(onAnswered));
      await expect(ask('tools/call', ASK, { signal: stop.signal })).rejects.toThrow();
      expect(kept).toHaveLength(1);
      await isEmpty();
    },
  );

  it('the question, where the host only could not wait any longer', async () => {
    const asked = vi.fn((_: unknown, signal: AbortSignal) =>
      once(signal, 'abort').then(() => ({ action: 'cancel' })),
    );
    const { ask, pending } = await stage('v1', asked as never, await askingServer());
    await expect(ask('tools/call', ASK, { timeout: 1_500 })).rejects.toThrow(/timed out/);
    // By then the bridge has heard of it.
    await expect(asked.mock.results[0]?.value).resolves.toBeDefined();
    expect(await pending()).toHaveLength(1);
  });
});
