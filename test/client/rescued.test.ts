import { randomUUID } from 'node:crypto';
import type { IncomingMessage, RequestListener } from 'node:http';
import { Client } from '@modelcontextprotocol/client';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { openValise } from 'mcp-valise/client';
import { createValise } from 'mcp-valise/server';
import { memoryStore } from 'mcp-valise/store';
import type { Carrier } from 'mcp-valise/wire';
import { afterEach, describe, expect, it, onTestFinished } from 'vitest';
import { endServers, listen } from '../server/http-stage.ts';

const text = (value: unknown) => ({ content: [{ type: 'text' as const, text: String(value) }] });
const ASKED = {
  message: 'Who?',
  schema: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] },
} as const;

/** A server of the older era that can forget its transports' sessions, and a client before it. */
async function make({
  carrier = 'state',
  asked,
  passing,
}: {
  carrier?: Carrier;
  asked?: (lose: () => void) => void;
  passing?: (method: string) => Promise<void> | undefined;
}) {
  const server = createValise({ name: 'test', store: memoryStore(), sessions: { mode: 'stored' } });
  const ran: string[] = [];
  const build = () => {
    const mcp = server.install(new McpServer({ name: 'test', version: '1.0.0' }));
    for (const name of ['one', 'two', 'three'])
      mcp.registerTool(name, {}, async () => {
        ran.push(name);
        return text(name);
      });
    const greet = server.flow(async (flow) => {
      const { name } = await flow.ask('name', ASKED);
      ran.push(name);
      return text(`hello ${name}`);
    });
    mcp.registerTool('greet', {}, greet as never);
    return mcp;
  };
  const transports = new Map<string, StreamableHTTPServerTransport>();
  const lose = () => transports.clear();
  const url = await listen(
    server.http(async (request: IncomingMessage, response, body) => {
      const id = request.headers['mcp-session-id'];
      const known = typeof id === 'string' ? transports.get(id) : undefined;
      if (id !== undefined && !known) return void response.writeHead(404).end('Session not found');
      const transport =
        known ??
        new StreamableHTTPServerTransport({
          sessionIdGenerator: () => randomUUID(),
          onsessioninitialized: (made) => void transports.set(made, transport),
        });
      if (!known) await build().connect(transport as never);
      await transport.handleRequest(request, response, body);
    }) as RequestListener,
  );
  const valise = await openValise({ store: memoryStore(), allowLocal: true, carriers: [carrier] });
  const client = new Client(
    { name: 'me', version: '1.0.0' },
    { capabilities: { elicitation: { form: {} } }, versionNegotiation: { mode: 'legacy' } },
  );
  client.onerror = () => {};
  client.setRequestHandler('elicitation/create', async () => {
    asked?.(lose);
    return { action: 'accept', content: { name: 'Ada' } };
  });
  /** The tools that were called, on the wire. */
  const sent: string[] = [];
  await valise.connect(
    client,
    valise.http(url, {
      fetch: async (to, init) => {
        const { method, params } = init?.method === 'POST' ? JSON.parse(String(init.body)) : {};
        if (method === 'tools/call') sent.push(params.name);
        await passing?.(method);
        return fetch(to, init);
      },
    }),
  );
  onTestFinished(async () => {
    await client.close();
    await valise.close();
  });
  const call = (name: string, options?: object) => client.callTool({ name, arguments: {} }, options);
  return { valise, client, call, ran, sent, lose };
}

afterEach(endServers);

describe('a call that is sent once more, since the session of its transport was lost', () => {
  it.each(['dependent-shared', 'dependent-each'] as const)(
    'is answered where it brings the answer of a round (%s)',
    async (carrier) => {
      const { valise, call, ran, sent } = await make({ carrier, asked: (lose) => lose() });
      expect(await call('greet', { timeout: 5000 })).toMatchObject(text('hello Ada'));
      expect([ran, sent]).toEqual([['Ada'], ['greet', 'greet', 'greet']]);
      expect(await valise.pending.list()).toEqual([]);
    },
  );

  it('keeps its place in a serial session', async () => {
    const { valise, client, call, ran, sent, lose } = await make({});
    const session = await valise.sessions(client).create({ ordering: 'serial' });
    lose();
    await session.run(() => Promise.all(['one', 'two', 'three'].map((name) => call(name))));
    expect(sent).toEqual(['one', 'one', 'two', 'three']);
    expect(ran).toEqual(['one', 'two', 'three']);
  });

  it('gives up its place in a serial session with its caller', async () => {
    let isHeld = (): void => {};
    let goOn = (): void => {};
    const held = new Promise<void>((resolve) => (isHeld = resolve));
    const goes = new Promise<void>((resolve) => (goOn = resolve));
    let isLost = false;
    const { valise, client, call, ran, lose } = await make({
      passing: (method) => {
        if (!isLost || method !== 'initialize') return undefined;
        isHeld();
        return goes;
      },
    });
    const session = await valise.sessions(client).create({ ordering: 'serial' });
    lose();
    isLost = true;
    await session.run(async () => {
      const stop = new AbortController();
      const one = call('one', { signal: stop.signal });
      const two = call('two');
      await held;
      stop.abort();
      await expect(one).rejects.toThrow();
      goOn();
      expect(await two).toMatchObject(text('two'));
    });
    expect(ran).toEqual(['two']);
  });
});
