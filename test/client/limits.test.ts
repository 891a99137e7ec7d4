import { Client, InMemoryTransport, type JSONRPCMessage } from '@modelcontextprotocol/client';
import { LeaveOpen, openValise } from 'mcp-valise/client';
import { memoryStore } from 'mcp-valise/store';
import { describe, expect, it, vi } from 'vitest';
import { callText } from '../e2e/hosts.ts';
import { askable } from '../e2e/rounds-stage.ts';
import { rawServer } from './rounds-server.ts';

const SESSION = 'io.modelcontextprotocol/session';

/** A server in this process that says what it likes, and a client with Valise. */
async function hostile(answer: (message: { id: unknown; method: string }) => object | undefined) {
  const [near, far] = InMemoryTransport.createLinkedPair();
  const said: { id?: unknown; error?: { message: string } }[] = [];
  far.onmessage = (message) => {
    const { id, method, params } = message as { id?: unknown; method?: string; params?: object };
    if (id === undefined || method === undefined) {
      said.push(message as { id?: unknown });
      return;
    }
    const introduction = {
      protocolVersion: (params as { protocolVersion?: string })?.protocolVersion,
      capabilities: { tools: {}, experimental: { sessions: {} } },
      serverInfo: { name: 'hostile', version: '1' },
    };
    const result = method === 'initialize' ? introduction : answer({ id, method });
    if (result) void far.send({ jsonrpc: '2.0', id, result } as JSONRPCMessage);
  };
  await far.start();
  const store = memoryStore();
  const valise = await openValise({ store, allowLocal: true });
  const client = new Client({ name: 'me', version: '1' }, { capabilities: { roots: {} } });
  const errors: string[] = [];
  client.onerror = ({ message }) => errors.push(message);
  await valise.connect(client, near);
  return { far, said, store, valise, client, errors };
}

describe('a hostile server', () => {
  it('has no more questions kept than its share, and calls go on', async () => {
    const server = await rawServer(({ message }) => {
      const params = '"params":{"message":"Name?","requestedSchema":{"type":"object","properties":{}}}';
      const id = JSON.stringify(message.id);
      const asked = `{"method":"elicitation/create",${params}}`;
      return [`{"jsonrpc":"2.0","id":${id},"dependent_requests":{"state":"s","requests":[${asked}]}}`];
    });
    const valise = await openValise({ store: memoryStore() });
    const warnings: string[] = [];
    valise.events.on('warning', ({ what, next }) => warnings.push(`${what} ${next}`));
    const host = askable('v2', 'legacy', () => {
      throw new LeaveOpen();
    });
    await valise.connect(host, valise.http(server.url, { resume: false }));
    for (let n = 0; n < 110; n++) await callText(host, 'any', { n }).catch(() => undefined);
    expect(await valise.pending.list()).toHaveLength(100);
    expect(warnings.at(-1)).toMatch(/100 questions of its server wait for answers.*drop/);
    const [first] = await valise.pending.list();
    await valise.pending.drop(first?.id as string);
    await callText(host, 'any', {}).catch(() => undefined);
    expect(await valise.pending.list()).toHaveLength(100);
    await host.close();
    await valise.close();
    await server.close();
  });

  it('has no question kept that is larger than a megabyte', async () => {
    const server = await rawServer(({ message }) => {
      const params = '"params":{"message":"Name?","requestedSchema":{"type":"object","properties":{}}}';
      const asked = `{"method":"elicitation/create",${params}}`;
      const state = 's'.repeat(1_100_000);
      const id = JSON.stringify(message.id);
      return [`{"jsonrpc":"2.0","id":${id},"dependent_requests":{"state":"${state}","requests":[${asked}]}}`];
    });
    const valise = await openValise({ store: memoryStore() });
    const warnings: string[] = [];
    valise.events.on('warning', ({ what }) => warnings.push(what));
    const host = askable('v2', 'legacy', () => {
      throw new LeaveOpen();
    });
    await valise.connect(host, valise.http(server.url, { resume: false }));
    await callText(host, 'any', {}).catch(() => undefined);
    expect(await valise.pending.list()).toEqual([]);
    expect(warnings).toContainEqual(expect.stringMatching(/more than 1048576 bytes/));
    await host.close();
    await valise.close();
    await server.close();
  });

  it('that asks without end gets errors for the rest, and the host hears of it', async () => {
    const { far, said, client, errors, valise } = await hostile(() => ({}));
    client.setRequestHandler('roots/list', () => new Promise(() => undefined));
    for (let n = 0; n < 1020; n++) await far.send({ jsonrpc: '2.0', id: `q${n}`, method: 'roots/list' });
    await vi.waitFor(() => expect(said.filter(({ error }) => error)).toHaveLength(20));
    expect(errors).toContainEqual(expect.stringContaining('more than 1000 things at a time'));
    await client.close();
    await valise.close();
  });

  it('that gives a session more state than is kept is refused, and its answer arrives', async () => {
    const id = 'sess-1';
    let state = 'small';
    const { client, valise } = await hostile(({ method }) =>
      method === 'sessions/create'
        ? { session: { sessionId: id, state } }
        : { content: [{ type: 'text', text: 'done' }], _meta: { [SESSION]: { sessionId: id, state } } },
    );
    const refused: string[] = [];
    valise.events.on('sessionRefused', ({ reason }) => refused.push(reason));
    const session = await valise.sessions(client).create({ label: 'mine' });
    state = 'x'.repeat(1024 * 1024 + 1);
    const answer = await session.run(() => client.callTool({ name: 'any' }));
    expect(answer.content).toEqual([{ type: 'text', text: 'done' }]);
    expect(refused).toEqual(['its state is too large']);
    await expect(valise.sessions(client).create()).rejects.toMatchObject({ code: 'bad-session' });
    await client.close();
    await valise.close();
  });

  it('that lists sessions without end is listened to for so long', async () => {
    let pages = 0;
    const { client, errors, valise } = await hostile(() => ({
      sessions: Array.from({ length: 5000 }, (_, n) => ({ sessionId: `sess-${pages}-${n}` })),
      nextCursor: `page-${++pages}`,
    }));
    expect(await valise.sessions(client).list()).toHaveLength(10_000);
    expect(pages).toBe(2);
    expect(errors).toContainEqual(expect.stringContaining('more than 10000 sessions'));
    await client.close();
    await valise.close();
  });
});
