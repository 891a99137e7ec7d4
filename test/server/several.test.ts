import type { IncomingMessage, RequestListener } from 'node:http';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { createMcpHandler, type McpServer } from '@modelcontextprotocol/server';
import { createValise, type ServerValise } from 'mcp-valise/server';
import { afterEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { call, endServers, HEADERS, initialize, listen, post } from './http-stage.ts';
import { MAJORS, type Major } from './majors.ts';
import { rawClient, resultOf, textOf } from './raw-client.ts';
import { attach, keys, SESSIONS, STAGES } from './sessions-tool.ts';
import { SESSION, sessionOf } from './state-tool.ts';

const OTHER = 'Zz1GXc1lJg5o3VtW3bYpW2yZr9s0u1v2w3x4y5z6A7Q';
const text = (value: unknown) => ({
  content: [{ type: 'text' as const, text: JSON.stringify(value ?? null) }],
});

/** A server with one tool, on which these are installed. */
function serverOf(
  { McpServer }: Major,
  work: () => unknown,
  valise: Pick<ServerValise, 'install'>,
): McpServer {
  const server = new McpServer({ name: 'test', version: '1.0.0' });
  valise.install(server);
  server.registerTool('work', { inputSchema: z.looseObject({}) }, async () => text(await work()));
  return server;
}

async function clientOf(major: Major, server: McpServer, capabilities: object = { state: {} }) {
  const [near, far] = major.Memory.createLinkedPair();
  await server.connect(far);
  return rawClient(near, capabilities);
}

describe.each(MAJORS)('several Valises in one process, on SDK $major', (major) => {
  const shop = createValise({ name: 'shop', keys, sessions: {} });
  const audit = createValise({
    name: 'audit',
    keys: OTHER,
    sessions: {},
    jar: { session: { role: { plain: true } } },
  });

  it.each<[string, () => unknown, string]>([
    ['state', () => audit.jar.session, 'outside-request'],
    ['session', () => audit.session(), 'outside-request'],
    ['flow', () => audit.flow(async () => 'done')({}), 'outside-request'],
  ])('%s() of one Valise is refused in a handler of another', async (_, use, code) => {
    const seen: unknown[] = [];
    const work = async () => {
      const error = await Promise.resolve()
        .then(use)
        .catch((thrown: unknown) => thrown);
      seen.push((error as { code?: unknown }).code);
      const { session } = shop.jar;
      const n = Number(session.get('n') ?? 0) + 1;
      session.set('n', n);
      return n;
    };
    const client = await clientOf(major, serverOf(major, work, shop));
    const first = await client.call('work');
    const second = await client.call('work', {}, { [SESSION]: sessionOf(first) });
    expect([textOf(first), textOf(second)]).toEqual(['1', '2']);
    expect(seen).toEqual([code, code]);
    await client.close();
  });

  it('a server accepts only one Valise, once', () => {
    for (const second of [audit, shop]) {
      const server = serverOf(major, () => undefined, shop);
      for (const named of [server, server.server])
        expect(() => second.install(named)).toThrow(expect.objectContaining({ code: 'already-connected' }));
    }
  });
});

describe.each(STAGES.filter(({ era }) => era === 'legacy'))('connections of one Valise: $stage', (stage) => {
  it('a message that a handler sends on another connection does not carry the session of the handler', async () => {
    const servers: McpServer[] = [];
    const valise = createValise({ name: 'test', keys, sessions: {} });
    const build = () => {
      const server = valise.install(
        new stage.major.McpServer({ name: 'test', version: '1.0.0' }, { capabilities: { logging: {} } }),
      );
      server.registerTool('tell', {}, async () => {
        for (const each of servers)
          await each.server.sendLoggingMessage({ level: 'info', data: 'somebody came' });
        return text(null);
      });
      servers.push(server);
      return server;
    };
    const one = await attach(build, stage, SESSIONS);
    const two = await attach(build, stage, SESSIONS);
    const session = await one.create();
    resultOf(await one.in(session, 'tell'));
    await expect.poll(() => two.heard).toHaveLength(1);
    expect(JSON.stringify(one.heard)).toContain(session.sessionId);
    expect(JSON.stringify(two.heard)).not.toContain(session.sessionId);
    await one.close();
    await two.close();
  });
});

describe.each(MAJORS)(
  'a handler behind valise.http that calls a server in its own process, on SDK $major',
  (major) => {
    afterEach(endServers);

    it('a handler that calls a server in its own process is not mistaken for its outer client', async () => {
      const outer = createValise({ name: 'outer', keys });
      const inner = createValise({ name: 'inner', keys, store: 'memory:' });
      const count = () => {
        const { session } = inner.jar;
        const n = Number(session.get('n') ?? 0) + 1;
        session.set('n', n);
        return n;
      };
      // A client that carries nothing: the state of the server behind it is in that server's store.
      const client = await clientOf(major, serverOf(major, count, inner), {});
      const gateway = () => serverOf(major, async () => textOf(await client.call('work')), outer);
      const handle =
        major.major === 'v2'
          ? toNodeHandler(outer.http(createMcpHandler(gateway)))
          : outer.http(async (request: IncomingMessage, response, body) => {
              const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined as never });
              await gateway().connect(transport as never);
              await transport.handleRequest(request, response, body);
            });
      const url = await listen(handle as RequestListener);
      const { headers } = await post(url, initialize({ state: {} }));
      const session = { 'mcp-session-id': headers.get('mcp-session-id') as string };
      const texts = [];
      for (let times = 0; times < 2; times++)
        texts.push(textOf((await post(url, call('work'), session)).message.result as never));
      expect(texts).toEqual(['"1"', '"2"']);
      await client.close();
      await inner.close();
    });
  },
);

it('an HTTP edge applies only to its own Valise, even if the handler calls another server over HTTP first', async () => {
  const { McpServer } = MAJORS[1];
  const outer = createValise({ name: 'outer', keys, store: 'memory:', sessions: {} });
  const inner = createValise({ name: 'inner', keys, store: 'memory:', sessions: {} });
  const seen: unknown[] = [];
  const build = (valise: ServerValise) => () => {
    const server = valise.install(new McpServer({ name: 'test', version: '1.0.0' }));
    server.registerTool('work', {}, async () => {
      const session = valise.session();
      const n = (session?.get<number>('n') ?? 0) + 1;
      session?.set('n', n);
      if (valise === inner) seen.push(session);
      return text(n);
    });
    return server;
  };
  const policy = createMcpHandler(build(inner));
  const own = createMcpHandler(build(outer));
  const handle = outer.http(async (request: Request, options?: object) => {
    const headers = { ...HEADERS, 'mcp-protocol-version': '2025-11-25' };
    const body = JSON.stringify(call('work'));
    await (await policy.fetch(new Request('http://test/mcp', { method: 'POST', headers, body }))).text();
    return own.fetch(request, options);
  });
  const url = await listen(toNodeHandler({ fetch: handle as never }) as RequestListener);
  const { headers } = await post(url, initialize({}));
  const session = { 'mcp-session-id': headers.get('mcp-session-id') as string };
  const texts = [];
  for (let times = 0; times < 2; times++)
    texts.push(textOf((await post(url, call('work'), session)).message.result as never));
  expect(texts).toEqual(['1', '2']);
  expect(new Set(seen)).toEqual(new Set([undefined]));
  endServers();
  await outer.close();
  await inner.close();
});
