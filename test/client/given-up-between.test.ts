import type { RequestListener } from 'node:http';
import { Client, InMemoryTransport } from '@modelcontextprotocol/client';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server';
import { openValise } from 'mcp-valise/client';
import { createValise } from 'mcp-valise/server';
import { memoryStore } from 'mcp-valise/store';
import type { Message, Request } from 'mcp-valise/wire';
import { afterEach, describe, expect, it, onTestFinished } from 'vitest';
import { z } from 'zod';
import { endServers, listen } from '../server/http-stage.ts';

const text = (value: unknown) => ({ content: [{ type: 'text' as const, text: String(value) }] });

function gate() {
  let open = (): void => {};
  const opened = new Promise<void>((resolve) => (open = resolve));
  return { opened, open: () => open() };
}

/** What a message is, as far as it matters here. */
const named = (message: Message): string => {
  const { method, id, params } = message as Partial<Request>;
  return `${method} ${id ?? params?.['requestId']}`;
};

/** A server whose tool `held` tells of its progress and waits, and a client; `passing` sees what goes out. */
async function make(over: 'memory' | 'http', passing: (message: Message) => Promise<void> | undefined) {
  const server = createValise({ name: 'test', store: memoryStore(), sessions: { mode: 'stored' } });
  const ran: string[] = [];
  const { opened, open: release } = gate();
  const build = () => {
    const mcp = server.install(new McpServer({ name: 'test', version: '1.0.0' }));
    mcp.registerTool('held', {}, async ({ mcpReq }) => {
      const progressToken = mcpReq._meta?.progressToken;
      if (progressToken !== undefined)
        await mcpReq.notify({ method: 'notifications/progress', params: { progressToken, progress: 1 } });
      await opened;
      return text('held');
    });
    const pay = async () => {
      ran.push('pay');
      return text('paid');
    };
    mcp.registerTool('pay', {}, pay);
    const region = z.string().meta({ 'x-mcp-header': 'Region' });
    mcp.registerTool('place', { inputSchema: z.object({ region }) }, async (given) => text(given.region));
    return mcp;
  };
  const valise = await openValise({ store: memoryStore(), allowLocal: true });
  const client = new Client(
    { name: 'me', version: '1.0.0' },
    over === 'http' ? { versionNegotiation: { mode: { pin: '2026-07-28' } } } : {},
  );
  client.onerror = () => {};
  const wire: string[] = [];
  const headers: Headers[] = [];
  /** Called when a message of the server has just come. */
  const heard: { answer: (() => Promise<void>) | undefined } = { answer: undefined };
  const pass = async (message: Message) => {
    wire.push(named(message));
    await passing(message);
  };
  if (over === 'memory') {
    const [near, far] = InMemoryTransport.createLinkedPair();
    const send = near.send.bind(near);
    near.send = async (message, options) => {
      await pass(message as Message);
      return send(message, options);
    };
    const answer = far.send.bind(far);
    far.send = async (message, options) => {
      await answer(message, options);
      void heard.answer?.();
    };
    await build().connect(far);
    await valise.connect(client, near);
  } else {
    const url = await listen(toNodeHandler(createMcpHandler(build)) as RequestListener);
    await valise.connect(
      client,
      valise.http(url, {
        fetch: async (to, init) => {
          headers.push(new Headers(init?.headers));
          if (init?.method === 'POST') await pass(JSON.parse(String(init.body)) as Message);
          return fetch(to, init);
        },
      }),
    );
  }
  onTestFinished(async () => {
    release();
    await client.close();
    await valise.close();
    endServers();
  });
  return { server, valise, client, ran, wire, headers, heard };
}

afterEach(endServers);

describe('a call that is given up when its turn comes', () => {
  it('is not sent, or cancelled after it was sent', async () => {
    const { valise, client, wire, heard } = await make('memory', () => undefined);
    const session = await valise.sessions(client).create({ ordering: 'serial' });
    const call = (options?: object) => client.callTool({ name: 'pay', arguments: {} }, options);
    const wrong: number[] = [];
    for (let turns = 0; turns < 40; turns++) {
      wire.length = 0;
      const stop = new AbortController();
      heard.answer = async () => {
        heard.answer = undefined;
        for (let turn = 0; turn < turns; turn++) await Promise.resolve();
        stop.abort();
      };
      const first = session.run(() => call());
      const second = session.run(() => call({ signal: stop.signal })).catch(() => undefined);
      await first;
      await second;
      await session.run(() => call());
      const cancelled = wire.findIndex((each) => each.startsWith('notifications/cancelled'));
      const id = wire[cancelled]?.split(' ')[1];
      if (cancelled >= 0 && !wire.slice(0, cancelled).includes(`tools/call ${id}`)) wrong.push(turns);
      if (cancelled >= 0 && wire.slice(cancelled).includes(`tools/call ${id}`)) wrong.push(turns);
    }
    expect(wrong).toEqual([]);
  });
});
