import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import {
  Client as ClientV2,
  InMemoryTransport,
  StreamableHTTPClientTransport,
} from '@modelcontextprotocol/client';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import {
  createMcpHandler,
  McpServer,
  ResourceTemplate,
  WebStandardStreamableHTTPServerTransport,
} from '@modelcontextprotocol/server';
import { context, propagation, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api';
import { openValise } from 'mcp-valise/client';
import { type TelemetryOptions, telemetry } from 'mcp-valise/otel';
import { createValise, type Flow, type ServerValiseOptions } from 'mcp-valise/server';
import { memoryStore } from 'mcp-valise/store';
import { describe, expect, it, onTestFinished } from 'vitest';
import { z } from 'zod';
import { KINDS, type Kind } from '../client/hosts.ts';
import { collect } from './collected.ts';

const SECRET = 'ada@example.com';
const text = (words: string) => ({ content: [{ type: 'text' as const, text: words }] });
const yes = {
  message: 'Sure?',
  schema: { type: 'object', properties: { ok: { type: 'boolean' } } },
} as const;

/** A server over real HTTP, both eras, stateless. */
async function serve(
  options: Partial<ServerValiseOptions> & { readonly also?: (server: McpServer) => void } = {},
) {
  const { also, ...rest } = options;
  const valise = createValise({
    name: 'shop',
    keys: 'ephemeral',
    store: memoryStore(),
    sessions: {},
    principal: () => ({ subject: SECRET }),
    telemetry: telemetry(),
    ...rest,
  });
  const handler = createMcpHandler(
    () => {
      const server = valise.install(new McpServer({ name: 'shop', version: '1.0.0' }));
      server.registerTool('buy', { inputSchema: z.object({ what: z.string() }) }, async ({ what }) => {
        valise.jar.session.set('last', what);
        trace.getTracer('app').startSpan('inside').end();
        return text(propagation.getActiveBaggage()?.getEntry('tenant')?.value ?? what);
      });
      server.registerTool('fail', {}, async () => ({ ...text('no'), isError: true }));
      server.registerTool(
        'confirm',
        { inputSchema: z.object({}) },
        valise.flow(async (_: unknown, flow: Flow) => {
          await flow.ask('first', yes);
          await flow.ask('second', yes);
          return text('done');
        }) as never,
      );
      also?.(server);
      return server;
    },
    { legacy: 'stateless' },
  );
  const http = createServer(valise.http(toNodeHandler(handler)) as never).listen(0, '127.0.0.1');
  await once(http, 'listening');
  onTestFinished(async () => {
    http.closeAllConnections();
    http.close();
    await valise.close();
  });
  return `http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp`;
}

async function connect(kind: Kind, url: string, options: TelemetryOptions = {}) {
  const valise = await openValise({ store: memoryStore(), allowLocal: true, telemetry: telemetry(options) });
  valise.on('warning', () => {});
  const info = { name: 'host', version: '1.0.0' };
  const capabilities = { elicitation: { form: {} } };
  const answer = async () => ({ action: 'accept' as const, content: { ok: true } });
  let client: ClientV2;
  if (kind.major === 'v1') {
    const own = new ClientV1(info, { capabilities });
    own.setRequestHandler(ElicitRequestSchema, answer);
    client = own as unknown as ClientV2;
  } else {
    const mode = kind.era === 'modern' ? { pin: '2026-07-28' } : ('legacy' as const);
    client = new ClientV2(info, { capabilities, versionNegotiation: { mode } });
    client.setRequestHandler('elicitation/create', answer);
  }
  await valise.connect(client, url);
  onTestFinished(async () => {
    await client.close();
    await valise.close();
  });
  return { client, valise };
}

describe.each(KINDS)('Telemetry of a $kind client and its server', (kind) => {
  it('has one span on each side in one trace, with the names and attributes of the conventions', async () => {
    const collected = collect();
    const url = await serve();
    const { client } = await connect(kind, url);
    const app = trace.getTracer('app').startSpan('app');
    await context.with(trace.setSpan(context.active(), app), () =>
      client.callTool({ name: 'buy', arguments: { what: SECRET } }),
    );
    app.end();
    const calls = collected.spans().filter(({ name }) => name === 'tools/call buy');
    const near = calls.find((span) => span.kind === SpanKind.CLIENT);
    const far = calls.find((span) => span.kind === SpanKind.SERVER);
    expect(calls).toHaveLength(2);
    expect(near?.parentSpanContext?.spanId).toBe(app.spanContext().spanId);
    expect(far?.parentSpanContext?.spanId).toBe(near?.spanContext().spanId);
    expect(far?.spanContext().traceId).toBe(app.spanContext().traceId);
    const inside = collected.spans().find(({ name }) => name === 'inside');
    expect(inside?.parentSpanContext?.spanId).toBe(far?.spanContext().spanId);
    const shared = {
      'mcp.method.name': 'tools/call',
      'gen_ai.operation.name': 'execute_tool',
      'gen_ai.tool.name': 'buy',
      'network.transport': 'tcp',
      'network.protocol.name': 'http',
    };
    expect(near?.attributes).toMatchObject({
      ...shared,
      'server.address': '127.0.0.1',
      'server.port': Number(new URL(url).port),
      'jsonrpc.request.id': expect.any(String),
    });
    expect(far?.attributes).toMatchObject({
      ...shared,
      'mcp.protocol.version': kind.era === 'modern' ? '2026-07-28' : '2025-11-25',
      'valise.family': expect.arrayContaining(['jar']),
      'valise.session.kind': expect.stringMatching(/^(none|transport)$/),
      'valise.store.system': 'custom',
    });
    // Neither arguments nor principals.
    const all = JSON.stringify(
      collected.spans().map(({ attributes, name, links }) => [name, attributes, links]),
    );
    expect(all).not.toContain(SECRET);
    expect(JSON.stringify(await collected.points())).not.toContain(SECRET);
  });

  it('measures requests, the store, and failures by their type', async () => {
    const collected = collect();
    const { client } = await connect(kind, await serve());
    await client.callTool({ name: 'buy', arguments: { what: 'a' } });
    await client.callTool({ name: 'fail' });
    for (const side of ['client', 'server']) {
      const points = await collected.points(`mcp.${side}.operation.duration`);
      const of = (tool: string) => points.find(({ attributes }) => attributes['gen_ai.tool.name'] === tool);
      expect(of('buy')).toMatchObject({ unit: 's', value: 1 });
      expect(of('buy')?.attributes).not.toHaveProperty('error.type');
      expect(of('fail')?.attributes).toMatchObject({ 'error.type': 'tool_error' });
    }
    const failed = collected.spans().filter(({ name }) => name === 'tools/call fail');
    expect(failed.map(({ status }) => status.code)).toEqual([SpanStatusCode.ERROR, SpanStatusCode.ERROR]);
    const store = await collected.points('valise.store.duration');
    expect(store.map(({ attributes }) => attributes['valise.store.operation'])).toContain('put');
    await client.close();
    const [session] = await collected.points('mcp.client.session.duration');
    expect(session).toMatchObject({ value: 1, unit: 's' });
  });

  it('tells a flow as one story: each round links to the one before', async () => {
    const collected = collect();
    const { client } = await connect(kind, await serve());
    expect((await client.callTool({ name: 'confirm', arguments: {} })).content).toEqual(text('done').content);
    const rounds = collected
      .spans()
      .filter((span) => span.name === 'tools/call confirm' && span.kind === SpanKind.SERVER)
      .sort((a, b) => a.startTime[0] - b.startTime[0] || a.startTime[1] - b.startTime[1]);
    expect(rounds.length).toBeGreaterThanOrEqual(3);
    for (const [index, { links, attributes }] of rounds.slice(0, 3).entries()) {
      expect(attributes['valise.family']).toContain('flows');
      expect(attributes['valise.flow.id']).toBe(rounds[0]?.attributes['valise.flow.id']);
      const previous = links.filter((link) => link.attributes?.['valise.link'] === 'previous-round');
      expect(previous.map(({ context: { spanId } }) => spanId)).toEqual(
        index === 0 ? [] : [rounds[index - 1]?.spanContext().spanId],
      );
      if (index < 2)
        expect(attributes).toMatchObject({ 'valise.round': index + 1, 'valise.carrier': expect.any(String) });
    }
    const states = await collected.points('valise.rounds');
    const of = (state: string) =>
      states.find(({ attributes }) => attributes['valise.round.state'] === state)?.value;
    expect(of('asked')).toBe(2);
    expect(of('answered')).toBe(2);
    const pending = await collected.points('valise.pending');
    expect(pending.map(({ attributes, value }) => [attributes['valise.side'], value]).sort()).toEqual([
      ['client', 0],
      ['server', 0],
    ]);
  });

  it('makes no second span where another library has made one', async () => {
    const collected = collect();
    const { client } = await connect(kind, await serve());
    const other = trace.getTracer('other').startSpan('tools/call buy', {
      kind: SpanKind.CLIENT,
      attributes: { 'mcp.method.name': 'tools/call' },
    });
    await context.with(trace.setSpan(context.active(), other), () =>
      client.callTool({ name: 'buy', arguments: { what: 'a' } }),
    );
    other.end();
    const near = collected
      .spans()
      .filter((span) => span.name === 'tools/call buy' && span.kind === SpanKind.CLIENT);
    expect(near).toHaveLength(1);
    expect(near[0]?.attributes['valise.family']).toBeDefined();
    const far = collected
      .spans()
      .find((span) => span.name === 'tools/call buy' && span.kind === SpanKind.SERVER);
    expect(far?.parentSpanContext?.spanId).toBe(other.spanContext().spanId);
  });

  it('keeps a trace context that somebody else has put into the request', async () => {
    const collected = collect();
    const { client } = await connect(kind, await serve());
    const traceparent = `00-${'ab'.repeat(16)}-${'cd'.repeat(8)}-01`;
    await client.callTool({
      name: 'buy',
      arguments: { what: 'a' },
      _meta: { traceparent, tracestate: 'x=1' },
    });
    const calls = collected.spans().filter(({ name }) => name === 'tools/call buy');
    expect(calls.map((span) => span.kind)).toEqual([SpanKind.SERVER]);
    expect(calls[0]?.spanContext().traceId).toBe('ab'.repeat(16));
    expect(calls[0]?.spanContext().traceState?.get('x')).toBe('1');
  });
});

describe.each(KINDS)('The baggage of a $kind client', (kind) => {
  const baggage = propagation.createBaggage({ tenant: { value: 'acme' } });

  it('reaches the handler of the server in _meta.baggage', async () => {
    collect();
    const { client } = await connect(kind, await serve());
    const { content } = await context.with(propagation.setBaggage(context.active(), baggage), () =>
      client.callTool({ name: 'buy', arguments: { what: 'a' } }),
    );
    expect(content).toEqual(text('acme').content);
    expect((await client.callTool({ name: 'buy', arguments: { what: 'a' } })).content).toEqual(
      text('a').content,
    );
  });

  it('is in no span and no metric, because it may name a user', async () => {
    const collected = collect();
    const { client } = await connect(kind, await serve());
    await context.with(propagation.setBaggage(context.active(), baggage), () =>
      client.callTool({ name: 'fail' }),
    );
    const spans = collected.spans().map(({ name, attributes, links }) => [name, attributes, links]);
    expect(JSON.stringify([spans, await collected.points()])).not.toContain('acme');
  });
});

describe.each(KINDS)('The spans of a $kind client and its server', (kind) => {
  it('name the prompt, and the resource without the secrets of its URI', async () => {
    const collected = collect();
    const url = await serve({
      also(server) {
        server.registerPrompt('greet', {}, () => ({
          messages: [{ role: 'user' as const, content: { type: 'text' as const, text: 'Hello' } }],
        }));
        server.registerResource(
          'doc',
          new ResourceTemplate('https://docs.example.com/a{?token}', { list: undefined }),
          {},
          ({ href }) => ({ contents: [{ uri: href, text: 'doc' }] }),
        );
      },
    });
    const { client } = await connect(kind, url);
    await client.getPrompt({ name: 'greet' });
    await client.readResource({ uri: 'https://docs.example.com/a?token=s3cret' });
    const prompts = collected.spans().filter(({ name }) => name === 'prompts/get greet');
    expect(prompts.map(({ attributes }) => attributes['gen_ai.prompt.name'])).toEqual(['greet', 'greet']);
    const reads = collected.spans().filter(({ name }) => name === 'resources/read');
    expect(reads).toHaveLength(2);
    for (const { attributes } of reads) {
      expect(attributes['mcp.resource.uri']).toContain('https://docs.example.com/a');
      expect(attributes['mcp.resource.uri']).not.toContain('s3cret');
    }
  });

  it('say that a call belongs to a data-layer session, and do not name it', async () => {
    const collected = collect();
    const { client, valise } = await connect(kind, await serve());
    const session = await valise.sessions(client).create();
    await session.run(() => client.callTool({ name: 'buy', arguments: { what: 'a' } }));
    const far = collected
      .spans()
      .find((span) => span.name === 'tools/call buy' && span.kind === SpanKind.SERVER);
    expect(far?.attributes['valise.session.kind']).toBe('data-layer');
    expect(far?.attributes['valise.family']).toContain('sessions');
    const spans = collected.spans().map(({ name, attributes, links }) => [name, attributes, links]);
    expect(JSON.stringify([spans, await collected.points()])).not.toContain(session.id);
  });
});

describe('Telemetry without an OpenTelemetry SDK', () => {
  it('adds nothing to clients, servers and stores', () => {
    const off = telemetry();
    const facts = {} as never;
    const store = memoryStore();
    expect([off.server(facts), off.client(facts)]).toEqual([undefined, undefined]);
    expect(off.store(store, 'memory')).toBe(store);
  });
});

describe('Telemetry of a server', () => {
  it('uses a span that another library has made around it', async () => {
    const collected = collect();
    const valise = createValise({ name: 'shop', keys: 'ephemeral', telemetry: telemetry() });
    const server = valise.install(new McpServer({ name: 'shop', version: '1.0.0' }));
    server.registerTool('ping', {}, async () => text('pong'));
    const [near, far] = InMemoryTransport.createLinkedPair();
    await server.connect(far);
    // As Sentry does: a span around each message, where it comes in.
    const { onmessage } = far;
    far.onmessage = (message, extra) => {
      const method = (message as { readonly method?: string }).method ?? '';
      const span = trace
        .getTracer('other')
        .startSpan('theirs', { attributes: { 'mcp.method.name': method } });
      context.with(trace.setSpan(context.active(), span), () => onmessage?.(message, extra));
      setImmediate(() => setImmediate(() => span.end()));
    };
    const client = new ClientV2({ name: 'host', version: '1.0.0' });
    await client.connect(near);
    await client.callTool({ name: 'ping' });
    await expect
      .poll(() => collected.spans().filter(({ name }) => name === 'theirs').length)
      .toBeGreaterThan(1);
    expect(collected.spans().filter(({ name }) => name.startsWith('tools/call'))).toEqual([]);
    await client.close();
  });

  it('passes the trace context on to the client that it asks, which has a span for the question', async () => {
    const collected = collect();
    const valise = createValise({ name: 'shop', keys: 'ephemeral', telemetry: telemetry() });
    const server = valise.install(new McpServer({ name: 'shop', version: '1.0.0' }));
    server.registerTool('ask', {}, async (extra: unknown) => {
      const { mcpReq } = extra as {
        mcpReq: { elicitInput(params: object): Promise<{ action: string }> };
      };
      return text(
        (await mcpReq.elicitInput({ message: 'Well?', requestedSchema: { type: 'object', properties: {} } }))
          .action,
      );
    });
    const [near, far] = InMemoryTransport.createLinkedPair();
    await server.connect(far);
    const host = await openValise({ store: memoryStore(), telemetry: telemetry() });
    const client = new ClientV2(
      { name: 'host', version: '1.0.0' },
      { capabilities: { elicitation: { form: {} } } },
    );
    client.setRequestHandler('elicitation/create', async () => ({ action: 'decline' as const }));
    await host.connect(client, near as never);
    expect((await client.callTool({ name: 'ask' })).content).toEqual(text('decline').content);
    const call = collected
      .spans()
      .find((span) => span.name === 'tools/call ask' && span.kind === SpanKind.SERVER);
    const question = collected.spans().find(({ name }) => name === 'elicitation/create');
    expect(question?.kind).toBe(SpanKind.SERVER);
    expect(question?.parentSpanContext?.spanId).toBe(call?.spanContext().spanId);
    expect(call?.attributes['network.transport']).toBe('pipe');
    await client.close();
    expect(await collected.points('mcp.server.session.duration')).toMatchObject([{ value: 1 }]);
    await host.close();
  });

  it.each([
    { client: 'Valise, in the client', isStock: false, during: { client: 1, server: 0 } },
    { client: 'a stock client, in the server', isStock: true, during: { client: 0, server: 1 } },
  ])('shows a question that a user of $client has not answered yet', async ({ isStock, during }) => {
    const collected = collect();
    const valise = createValise({ name: 'shop', keys: 'ephemeral', telemetry: telemetry() });
    const server = valise.install(new McpServer({ name: 'shop', version: '1.0.0' }));
    server.registerTool(
      'confirm',
      {},
      valise.flow(async (flow: Flow) => {
        await flow.ask('sure', yes);
        return text('done');
      }) as never,
    );
    const [near, far] = InMemoryTransport.createLinkedPair();
    await server.connect(far);
    const host = await openValise({ store: memoryStore(), telemetry: telemetry() });
    const client = new ClientV2(
      { name: 'host', version: '1.0.0' },
      { capabilities: { elicitation: { form: {} } } },
    );
    const pending = async () =>
      Object.fromEntries(
        (await collected.points('valise.pending')).map(({ attributes, value }) => [
          attributes['valise.side'],
          value,
        ]),
      );
    let seen: unknown;
    client.setRequestHandler('elicitation/create', async () => {
      seen = await pending();
      return { action: 'accept' as const, content: { ok: true } };
    });
    await (isStock ? client.connect(near) : host.connect(client, near as never));
    await client.callTool({ name: 'confirm' });
    expect(seen).toEqual(during);
    expect(await pending()).toEqual({ client: 0, server: 0 });
    await client.close();
    await host.close();
  });

  it('counts rejections by family and reason, and no more names than a peer may cause', async () => {
    const collected = collect();
    const url = await serve({ maxInFlight: 1000 });
    const { client } = await connect(KINDS[2], url);
    await expect(
      client.callTool({
        name: 'confirm',
        arguments: {},
        requestState: 'forged',
        inputResponses: {},
      } as never),
    )
      .resolves.toBeDefined()
      .catch(() => undefined);
    const response = await fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
      body: JSON.stringify({
        jsonrpc: '2.0',
        id: 1,
        method: 'tools/call',
        params: {
          name: 'buy',
          arguments: { what: 'x' },
          _meta: { 'io.modelcontextprotocol/session': { sessionId: 'forged' } },
        },
      }),
    });
    await response.text();
    const rejected = await collected.points('valise.rejected');
    expect(rejected.length).toBeGreaterThan(0);
    expect(rejected[0]?.attributes).toMatchObject({
      'valise.family': expect.any(String),
      'valise.rejected.reason': expect.any(String),
    });
    for (let n = 0; n < 250; n++) await client.callTool({ name: `no-such-${n}` }).catch(() => undefined);
    const names = new Set(
      (await collected.points('mcp.server.operation.duration')).map(
        ({ attributes }) => attributes['gen_ai.tool.name'],
      ),
    );
    expect(names.size).toBeLessThan(210);
    expect(names).toContain('_other');
  }, 20_000);

  it('records arguments and results only if told to', async () => {
    const collected = collect();
    const url = await serve({ telemetry: telemetry({ captureContent: true }) });
    const { client } = await connect(KINDS[2], url, { captureContent: true });
    await client.callTool({ name: 'buy', arguments: { what: 'tea' } });
    for (const span of collected.spans().filter(({ name }) => name === 'tools/call buy'))
      expect(span.attributes['gen_ai.tool.call.arguments']).toBe('{"what":"tea"}');
  });

  it.each([true, false])(
    'records the id of the transport session with captureSessionId: %s',
    async (captureSessionId) => {
      const collected = collect();
      const valise = createValise({
        name: 'shop',
        keys: 'ephemeral',
        telemetry: telemetry({ captureSessionId }),
      });
      const server = valise.install(new McpServer({ name: 'shop', version: '1.0.0' }));
      server.registerTool('ping', {}, async () => text('pong'));
      const transport = new WebStandardStreamableHTTPServerTransport({
        sessionIdGenerator: () => 'session-7',
      });
      await server.connect(transport);
      const client = new ClientV2({ name: 'host', version: '1.0.0' });
      await client.connect(
        new StreamableHTTPClientTransport(new URL('http://shop.example/mcp'), {
          fetch: (url, init) => transport.handleRequest(new Request(url, init)),
        }),
      );
      await client.callTool({ name: 'ping' });
      const call = collected.spans().find(({ name }) => name === 'tools/call ping');
      expect(call?.attributes['mcp.session.id']).toBe(captureSessionId ? 'session-7' : undefined);
      expect(call?.attributes['valise.session.kind']).toBe('transport');
      await client.close();
      await server.close();
    },
  );

  it('creates no spans with spans: false, and measures', async () => {
    const collected = collect();
    const url = await serve({ telemetry: telemetry({ spans: false }) });
    const { client } = await connect(KINDS[2], url, { spans: false });
    await client.callTool({ name: 'buy', arguments: { what: 'tea' } });
    expect(collected.spans().map(({ name }) => name)).toEqual(['inside']);
    expect(await collected.points('mcp.server.operation.duration')).not.toEqual([]);
  });
});
