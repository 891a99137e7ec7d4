import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, inputRequired, McpServer } from '@modelcontextprotocol/server';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { z } from 'zod';
import type { Request } from '../../src/wire/index.ts';
import { ASKING, cancelled, olderHostAsked } from './era-bridge.ts';
import { sdkHost } from './sdk-hosts.ts';
import { folder, VALISE, valiseJson } from './valise.ts';

/** A server without Valise that knows only the newer era, and asks. */
async function askingServer(): Promise<string> {
  const requestedSchema = { type: 'object' as const, properties: { name: { type: 'string' as const } } };
  const build = () => {
    const server = new McpServer({ name: 'newer', version: '1.0.0' });
    server.registerTool('ask', { inputSchema: z.object({}) }, async () =>
      inputRequired({ inputRequests: { name: inputRequired.elicit({ message: 'Who?', requestedSchema }) } }),
    );
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

describe('valise connect and a call that an older host takes back, at a newer server', () => {
  it('is over where the host is asked in it: the question is taken back, and nothing sent', async () => {
    const { host, sent, cancel, reply, question } = await olderHostAsked();
    sent.length = host.length = 0;
    await cancel(1);
    expect(host).toEqual([cancelled(question.id)]);
    await reply(question.id);
    expect(sent).toEqual([]);
    expect(host).toHaveLength(1);
  });

  it('is taken back under the id that the server knows', async () => {
    const { host, sent, cancel, reply, answer, question } = await olderHostAsked();
    await reply(question.id);
    const again = sent.at(-1) as Request;
    sent.length = host.length = 0;
    await cancel(1);
    expect(sent).toEqual([cancelled(again.id)]);
    // The server may have asked before it heard of it.
    await answer('asks', ASKING);
    expect(host).toEqual([]);
  });

  it('leaves nothing for valise pending', async () => {
    const store = ['--store', `sqlite:${join(await folder(), 'state.db')}`];
    const stop = new AbortController();
    let kept: unknown[] = [];
    const pending = async () => (await valiseJson<{ pending: unknown[] }>(['pending', ...store])).pending;
    const command = [process.execPath, VALISE, 'connect', await askingServer(), ...store] as const;
    const { client } = await sdkHost('v2', [...command], {
      capabilities: { elicitation: {} },
      answers: {
        'elicitation/create': async () => {
          kept = await pending();
          stop.abort();
          return { action: 'cancel' };
        },
      },
    });
    await expect(client.callTool({ name: 'ask' }, { signal: stop.signal })).rejects.toThrow();
    expect(kept).toHaveLength(1);
    await vi.waitFor(async () => expect(await pending()).toEqual([]), { timeout: 20_000 });
  });
});
