import type { RequestListener } from 'node:http';
import { Client, InMemoryTransport, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server';
import { openValise } from 'mcp-valise/client';
import type { Message, Request } from 'mcp-valise/internal';
import { createValise } from 'mcp-valise/server';
import { memoryStore } from 'mcp-valise/store';
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
async function make(
  over: 'memory' | 'http' | 'SDK',
  passing: (message: Message) => Promise<void> | undefined,
) {
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
    over === 'memory' ? {} : { versionNegotiation: { mode: { pin: '2026-07-28' } } },
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
    const seen = async (to: string | URL, init?: RequestInit) => {
      headers.push(new Headers(init?.headers));
      if (init?.method === 'POST') await pass(JSON.parse(String(init.body)) as Message);
      return fetch(to, init);
    };
    if (over === 'SDK') await valise.connect(client, new StreamableHTTPClientTransport(url, { fetch: seen }));
    else await valise.connect(client, url, { fetch: seen });
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

describe.each(['memory', 'http'] as const)('a call whose session is replaced (%s)', (over) => {
  it('A call that is canceled while its session is replaced is not sent again', async () => {
    const creating = gate();
    const created = gate();
    let isHeld = false;
    const { server, valise, client, ran, wire } = await make(over, (message) => {
      if (!isHeld || !named(message).includes('sessions/create')) return undefined;
      creating.open();
      return created.opened;
    });
    const session = await valise.sessions(client).create({ onGone: 'recreate' });
    await server.sessions.revoke(session.id);
    isHeld = true;
    const stop = new AbortController();
    const called = session.run(() =>
      client.callTool({ name: 'pay', arguments: {} }, { signal: stop.signal }),
    );
    await creating.opened;
    stop.abort();
    await expect(called).rejects.toThrow();
    created.open();
    // What comes after it in the new session finds what has become of it.
    const { id } = session;
    await expect.poll(() => session.id).not.toBe(id);
    await session.run(() => client.listTools());
    expect(ran).toEqual([]);
    expect(wire.filter((each) => each.startsWith('tools/call'))).toHaveLength(1);
  });
});

describe('a call of 2026-07-28 over HTTP', () => {
  it('A call of 2026-07-28 is sent again unchanged if its session is replaced', async () => {
    const { server, valise, client, wire, headers } = await make('http', () => undefined);
    await client.listTools();
    const session = await valise.sessions(client).create({ onGone: 'recreate' });
    await server.sessions.revoke(session.id);
    const placed = session.run(() => client.callTool({ name: 'place', arguments: { region: 'eu' } }));
    expect(await placed).toMatchObject(text('eu'));
    const regions = headers.map((each) => each.get('mcp-param-region')).filter((each) => each !== null);
    expect(regions).toEqual(['eu', 'eu']);
    expect(wire.filter((each) => each.startsWith('tools/call'))).toHaveLength(2);
  });

  it.each([
    { over: 'http', how: 'abort' },
    { over: 'http', how: 'timeout' },
    { over: 'SDK', how: 'abort' },
  ] as const)(
    'A canceled call of 2026-07-28 does not delay the others of its serial session: $how, $over',
    async ({ over, how }) => {
      const { valise, client } = await make(over, () => undefined);
      const session = await valise.sessions(client).create({ ordering: 'serial' });
      const stop = new AbortController();
      await session.run(async () => {
        const begun = gate();
        const held = client.callTool(
          { name: 'held', arguments: {} },
          { onprogress: begun.open, ...(how === 'abort' ? { signal: stop.signal } : { timeout: 500 }) },
        );
        const pay = client.callTool({ name: 'pay', arguments: {} });
        await begun.opened;
        stop.abort();
        await expect(held).rejects.toThrow();
        expect(await pay).toMatchObject(text('paid'));
      });
    },
  );
});

describe('a call that is canceled when its turn comes', () => {
  it('A call that is canceled when its turn comes is not sent, or is canceled after it was sent', async () => {
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
