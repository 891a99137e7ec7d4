import type { RequestListener } from 'node:http';
import { Client, InMemoryTransport } from '@modelcontextprotocol/client';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server';
import { type ClientValise, LeaveOpen, openValise } from 'mcp-valise/client';
import type { Carrier } from 'mcp-valise/internal';
import { createValise } from 'mcp-valise/server';
import { memoryStore } from 'mcp-valise/store';
import { afterEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { endServers, listen } from '../server/http-stage.ts';

const text = (value: unknown) => ({ content: [{ type: 'text' as const, text: String(value) }] });
const named = (name: string) => ({ action: 'accept' as const, content: { name } });
const ASKED = {
  message: 'Who?',
  schema: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] },
} as const;

interface Way {
  readonly over: 'memory' | 'HTTP';
  readonly era: 'legacy' | 'modern';
  readonly carrier: Carrier;
}

const WAYS: readonly Way[] = [
  { over: 'memory', era: 'legacy', carrier: 'state' },
  { over: 'memory', era: 'legacy', carrier: 'dependent-shared' },
  { over: 'HTTP', era: 'legacy', carrier: 'state' },
  { over: 'HTTP', era: 'legacy', carrier: 'dependent-shared' },
  { over: 'HTTP', era: 'modern', carrier: 'state' },
];

/** A server without a store, and a client whose handler is the test's; `working` is in the way of what the server does. */
async function make(
  { over, era, carrier }: Way,
  handler: () => Promise<object>,
  { valise, name = 'server', working }: Partial<Given> = {},
) {
  const server = createValise({ name: 'test' });
  const ran: string[] = [];
  const build = () => {
    const mcp = server.install(new McpServer({ name: 'test', version: '1.0.0' }));
    const greet = server.flow(async (flow) => {
      const { name: who } = await flow.ask('name', ASKED);
      ran.push(who);
      await working?.();
      return text(`${name}: hello ${who}`);
    });
    mcp.registerTool('greet', {}, greet);
    mcp.registerTool('slow', {}, async () => {
      await working?.();
      return text(name);
    });
    return mcp;
  };
  const mine = valise ?? (await openValise({ store: memoryStore(), allowLocal: true, carriers: [carrier] }));
  const client = new Client(
    { name: 'me', version: '1.0.0' },
    {
      capabilities: { elicitation: { form: {} } },
      versionNegotiation: { mode: era === 'modern' ? { pin: '2026-07-28' } : 'legacy' },
    },
  );
  client.onerror = () => {};
  let url: URL | undefined;
  client.setRequestHandler('elicitation/create', handler as never);
  if (over === 'memory') {
    const [near, far] = InMemoryTransport.createLinkedPair();
    await build().connect(far);
    await mine.connect(client, near);
  } else {
    const handle = toNodeHandler(createMcpHandler(build)) as RequestListener;
    url = await listen(server.http(handle as never) as RequestListener);
    await mine.connect(client, url);
  }
  onTestFinished(async () => {
    await client.close();
    if (!valise) await mine.close();
  });
  const call = (tool: string, options?: object) => client.callTool({ name: tool, arguments: {} }, options);
  return { valise: mine, client, call, ran, url };
}

interface Given {
  readonly valise: ClientValise;
  readonly name: string;
  readonly working: () => Promise<void>;
}

const leave = async (): Promise<never> => {
  throw new LeaveOpen();
};

async function onlyRound(valise: ClientValise) {
  return vi.waitFor(async () => {
    const [round] = await valise.pending.list();
    if (!round) throw new Error('not asked yet');
    return round;
  });
}

afterEach(endServers);

describe.each(WAYS)('a pending round ($over, $era, $carrier)', (way) => {
  it('pending.answer() is refused while the handler of the call is running', async () => {
    let answer = (_: object): void => {};
    const asked = vi.fn(() => new Promise<object>((resolve) => (answer = resolve)));
    const { valise, call, ran } = await make(way, asked);
    const greeted = call('greet');
    const { id } = await onlyRound(valise);
    const refused = { code: 'already-done' };
    await expect(valise.pending.answer(id, named('Hand'))).rejects.toMatchObject(refused);
    await vi.waitFor(() => expect(asked).toHaveBeenCalled());
    await expect(valise.pending.answer(id)).rejects.toMatchObject(refused);
    answer(named('Handler'));
    expect(await greeted).toMatchObject(text('server: hello Handler'));
    expect(ran).toEqual(['Handler']);
    expect(await valise.pending.list()).toEqual([]);
  });

  it('pending.answer() is refused while the server processes the answer', async () => {
    let goOn = (): void => {};
    const working = vi.fn(() => new Promise<void>((resolve) => (goOn = resolve)));
    const { valise, call, ran } = await make(way, async () => named('Handler'), { working });
    const greeted = call('greet');
    await vi.waitFor(() => expect(working).toHaveBeenCalled());
    const { id } = await onlyRound(valise);
    const byHand = valise.pending.answer(id, named('Hand'));
    await expect(byHand).rejects.toMatchObject({ code: 'already-done' });
    goOn();
    expect(await greeted).toMatchObject(text('server: hello Handler'));
    expect(ran).toEqual(['Handler']);
  });

  it('Canceling the call withdraws its round, whatever the handler does', async () => {
    let answer = (_: object): void => {};
    const asked = vi.fn(() => new Promise<object>((resolve) => (answer = resolve)));
    const { valise, call, ran } = await make(way, asked);
    const stop = new AbortController();
    const greeted = call('greet', { signal: stop.signal });
    greeted.catch(() => {});
    await vi.waitFor(() => expect(asked).toHaveBeenCalled());
    await onlyRound(valise);
    stop.abort('enough');
    await vi.waitFor(async () => expect(await valise.pending.list()).toEqual([]));
    answer(named('Late'));
    await expect(greeted).rejects.toThrow(/enough/);
    // What is sent after it has come after it.
    await call('slow');
    expect(ran).toEqual([]);
  });

  it('Canceling the call while the server processes the answer withdraws its round', async () => {
    let goOn = (): void => {};
    const working = vi.fn(() => new Promise<void>((resolve) => (goOn = resolve)));
    const { valise, call } = await make(way, async () => named('Handler'), { working });
    const stop = new AbortController();
    const greeted = call('greet', { signal: stop.signal });
    greeted.catch(() => {});
    await vi.waitFor(() => expect(working).toHaveBeenCalled());
    await onlyRound(valise);
    stop.abort('enough');
    await expect(greeted).rejects.toThrow(/enough$/);
    await vi.waitFor(async () => expect(await valise.pending.list()).toEqual([]));
    goOn();
  });

  it('A round stays pending if its call times out', async () => {
    let answer = (_: object): void => {};
    const asked = vi.fn(() => new Promise<object>((resolve) => (answer = resolve)));
    const { valise, call } = await make(way, asked);
    const stop = new AbortController();
    const greeted = call('greet', { signal: stop.signal });
    greeted.catch(() => {});
    await vi.waitFor(() => expect(asked).toHaveBeenCalled());
    stop.abort(new Error('timed out'));
    await call('slow');
    expect(await valise.pending.list()).toHaveLength(1);
    answer(named('Late'));
  });

  it('pending.answer() answers a round that the handler left open', async () => {
    const { valise, call } = await make(way, leave);
    await expect(call('greet')).rejects.toThrow(/waits for an answer/);
    const { id } = await onlyRound(valise);
    expect(await valise.pending.answer(id, named('Hand'))).toMatchObject({
      done: true,
      result: text('server: hello Hand'),
    });
  });
});

describe.each(WAYS.slice(0, 2))('a round of one of two servers in this process ($carrier)', (way) => {
  it('A round is answered on its own connection, whatever the other connection does', async () => {
    let goOn = (): void => {};
    const working = vi.fn(() => new Promise<void>((resolve) => (goOn = resolve)));
    const a = await make(way, leave, { name: 'A', working });
    const { valise } = a;
    const b = await make(way, leave, { name: 'B', valise });
    const rounds: string[] = [];
    const leftOpen = async () => {
      await expect(b.call('greet')).rejects.toThrow(/waits for an answer/);
      const { id } = await onlyRound(valise);
      rounds.push(id);
      return id;
    };
    const done = { done: true, result: text('B: hello Ada') };
    const slow = a.call('slow');
    await vi.waitFor(() => expect(working).toHaveBeenCalled());
    expect(await valise.pending.answer(await leftOpen(), named('Ada'))).toMatchObject(done);
    goOn();
    expect(await slow).toMatchObject(text('A'));
    expect(await valise.pending.answer(await leftOpen(), named('Ada'))).toMatchObject(done);
    expect(rounds).toHaveLength(2);
  });
});

describe('a round whose handler fails after it has called a server of the older era', () => {
  const older: Way = { over: 'memory', era: 'legacy', carrier: 'state' };
  const newer: Way = { over: 'HTTP', era: 'modern', carrier: 'state' };

  it('The round ends, and the call fails with the error of the handler', async () => {
    const other = await make(older, leave);
    const { valise } = other;
    const { call } = await make(
      newer,
      async () => {
        await other.call('slow');
        throw new Error('not today');
      },
      { valise },
    );
    await expect(call('greet')).rejects.toThrow(/^not today$/);
    expect(await valise.pending.list()).toEqual([]);
  });
});

describe('a client that connects with another Valise', () => {
  it('A failed handler withdraws the round that the current Valise has stored', async () => {
    const way: Way = { over: 'HTTP', era: 'modern', carrier: 'state' };
    const { client, url } = await make(way, async () => {
      throw new Error('not today');
    });
    await client.close();
    const other = await openValise({ store: memoryStore(), allowLocal: true });
    await other.connect(client, url as URL);
    await expect(client.callTool({ name: 'greet', arguments: {} })).rejects.toThrow(/^not today$/);
    expect(await other.pending.list()).toEqual([]);
    await client.close();
    await other.close();
  });
});
