import { once } from 'node:events';
import { Agent, request } from 'node:http';
import type { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { getRequestListener } from '@hono/node-server';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { WebStandardStreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js';
import { createMcpHandler } from '@modelcontextprotocol/server';
import express, { type Request as ExpressRequest } from 'express';
import fastify from 'fastify';
import { Hono } from 'hono';
import { createValise, type ServerValise } from 'mcp-valise/server';
import { memoryStore } from 'mcp-valise/store';
import { afterEach, describe, expect, it } from 'vitest';
import { because } from '../skip.ts';
import { build, call, endServers, HEADERS, initialize, listen, post } from './http-stage.ts';
import { MAJORS } from './majors.ts';

afterEach(endServers);

type Listener = Parameters<typeof listen>[0];

const stateless = { sessionIdGenerator: undefined as never };

/** A handler of SDK v2 that never hears of a parsed body. */
const oneArgument = (valise: ServerValise) => {
  const handler = createMcpHandler(() => build(valise, MAJORS[1]));
  return (request: Request) => handler.fetch(request);
};

/** Answers with SDK v1, from the body that Express has parsed, or from none at all. */
const withV1 =
  (valise: ServerValise, bodyOf: (request: ExpressRequest) => unknown) =>
  async (request: ExpressRequest, response: Parameters<Listener>[1]): Promise<void> => {
    const transport = new StreamableHTTPServerTransport(stateless);
    await build(valise, MAJORS[0]).connect(transport as never);
    await transport.handleRequest(request, response, bodyOf(request));
  };

const withOther = (app: express.Express): express.Express => {
  app.post('/other', express.json(), (request, response) => void response.json({ got: request.body }));
  return app;
};

/** What authors wrap, and a route beside it that has nothing to do with MCP. */
const WRAPPED: Record<string, (valise: ServerValise) => Listener | Promise<Listener>> = {
  'a fetch function with one argument (v2)': (valise) =>
    getRequestListener(valise.http(oneArgument(valise))) as Listener,
  'a fetch function that hands its request to a transport (v1)': (valise) =>
    getRequestListener(
      valise.http(async (request) => {
        const transport = new WebStandardStreamableHTTPServerTransport(stateless);
        await build(valise, MAJORS[0]).connect(transport as never);
        return transport.handleRequest(request);
      }),
    ) as Listener,
  'a fetch function that clones its request': (valise) => {
    const inner = oneArgument(valise);
    return getRequestListener(valise.http((request) => inner(new Request(request.clone())))) as Listener;
  },
  'a Hono app': (valise) => {
    const app = new Hono();
    const inner = oneArgument(valise);
    app.all('/mcp', (context) => inner(context.req.raw));
    app.post('/other', async (context) => context.json({ got: await context.req.json() }));
    return getRequestListener(valise.http(app).fetch) as Listener;
  },
  'an Express app that parses before its routes': (valise) => {
    const app = express();
    app.use(express.json());
    app.all(
      '/mcp',
      withV1(valise, ({ body }) => body),
    );
    return valise.http(withOther(app));
  },
  'an Express app that parses nothing': (valise) => {
    const app = express();
    app.all(
      '/mcp',
      withV1(valise, () => undefined),
    );
    return valise.http(withOther(app));
  },
  'a route of Express, behind a parser': (valise) => {
    const app = express();
    app.use(express.json());
    app.all('/mcp', valise.http(withV1(valise, ({ body }) => body)));
    return withOther(app);
  },
  'a route of Express, with no parser': (valise) => {
    const app = express();
    app.all('/mcp', valise.http(withV1(valise, () => undefined)));
    return withOther(app);
  },
  'a route of Fastify': async (valise) => {
    const app = fastify();
    const handler = valise.http(toNodeHandler(createMcpHandler(() => build(valise, MAJORS[1]))));
    app.all('/mcp', async (request, reply) => {
      reply.hijack();
      await handler(request.raw as never, reply.raw, request.body);
    });
    app.post('/other', async (request) => ({ got: request.body }));
    await app.ready();
    return app.routing as Listener;
  },
  'a Node function that reads the stream by itself': (valise) =>
    valise.http(async (request, response) => {
      const transport = new StreamableHTTPServerTransport(stateless);
      await build(valise, MAJORS[0]).connect(transport as never);
      await transport.handleRequest(request, response);
    }),
};

describe.each(Object.keys(WRAPPED))('valise.http() around %s', (form) => {
  const stage = async () => {
    const valise = createValise({ name: 'body', store: memoryStore() });
    const url = await listen(await (WRAPPED[form] as (valise: ServerValise) => Listener)(valise));
    const { headers } = await post(url, initialize({ elicitation: {} }));
    return { url, session: { 'mcp-session-id': headers.get('mcp-session-id') as string } };
  };

  it('valise.http() passes a call on with its body', async () => {
    const { url, session } = await stage();
    const { status, message } = await post(url, call('plain'), session);
    expect(status).toBe(200);
    expect(message['result'].content[0].text).toBe('plain');
  });

  it('valise.http() passes the original call on when its answer arrives', async () => {
    const { url, session } = await stage();
    const asked = await fetch(url, {
      method: 'POST',
      headers: { ...HEADERS, 'mcp-protocol-version': '2025-11-25', ...session },
      body: JSON.stringify(call('ask')),
    });
    const reader = (asked.body as ReadableStream<Uint8Array>).getReader();
    let read = '';
    const until = async (pattern: RegExp): Promise<string> => {
      while (!pattern.test(read)) {
        const { done, value } = await reader.read();
        if (done) throw new Error(`The stream ended: ${read}`);
        read += Buffer.from(value).toString();
      }
      return (pattern.exec(read) as RegExpExecArray)[1] as string;
    };
    const { id } = JSON.parse(await until(/^data: (\{.*"elicitation\/create".*\})$/m));
    const answer = { jsonrpc: '2.0', id, result: { action: 'accept', content: { name: 'Ada' } } };
    expect((await post(url, answer, session)).status).toBe(202);
    expect(await until(/(hello Ada)/)).toBe('hello Ada');
    await reader.cancel();
  });

  it('valise.http() lets the inner handler refuse a body that is not JSON', async () => {
    const { url, session } = await stage();
    const { status } = await post(url, '{"jsonrpc":', session);
    expect(status).toBe(400);
  });

  it.runIf(/Hono app|Express|Fastify/.test(form))(
    'valise.http() does not read the bodies of other routes',
    because('this form has one route'),
    async () => {
      const { url } = await stage();
      for (const accept of ['*/*', 'text/event-stream']) {
        const headers = { 'content-type': 'application/json', accept };
        const got = { text: 'x'.repeat(50_000), list: [1, 2] };
        const body = JSON.stringify(got);
        const response = await fetch(new URL('/other', url), { method: 'POST', headers, body });
        expect(await response.json()).toEqual({ got });
      }
    },
  );

  it.runIf(/Hono app|Express app/.test(form))(
    'valise.http() lets an app answer that it has no such route',
    because('this form wraps no router'),
    async () => {
      const { url } = await stage();
      const response = await fetch(new URL('/nowhere', url), {
        method: 'POST',
        headers: HEADERS,
        body: JSON.stringify(call('plain')),
      });
      expect(response.status).toBe(404);
    },
  );
});

describe('valise.http()', () => {
  it('valise.http() passes on the other arguments of the platform', async () => {
    const valise = createValise({ name: 'body' });
    class Platform {
      readonly #address = '192.0.2.1';
      get address(): string {
        return this.#address;
      }
    }
    const seen: unknown[] = [];
    const handler = valise.http({
      fetch(_request: Request, platform: Platform, context: { readonly id: number }) {
        seen.push(platform.address, context.id);
        return new Response('ok');
      },
    });
    const mcp = () =>
      new Request('http://127.0.0.1/mcp', {
        method: 'POST',
        headers: HEADERS,
        body: JSON.stringify(call('plain')),
      });
    await handler.fetch(mcp(), new Platform(), { id: 1 });
    await handler.fetch(new Request('http://127.0.0.1/'), new Platform(), { id: 2 });
    expect(seen).toEqual(['192.0.2.1', 1, '192.0.2.1', 2]);
  });

  it('valise.http() keeps the connection alive if no handler reads the body', async () => {
    const valise = createValise({ name: 'body' });
    const sockets = new Set<unknown>();
    const ended: Promise<void>[] = [];
    const url = await listen(
      valise.http(async (incoming, response, body) => {
        sockets.add(incoming.socket);
        ended.push(new Promise((resolve) => incoming.once('close', resolve)));
        response.end(JSON.stringify(body));
      }),
    );
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    for (let n = 0; n < 3; n++) {
      const sent = request(url, { method: 'POST', headers: HEADERS, agent });
      sent.end(JSON.stringify(call('plain')));
      const [response] = (await once(sent, 'response')) as [Readable];
      expect(JSON.parse(await text(response))).toEqual(call('plain'));
    }
    await Promise.all(ended);
    agent.destroy();
    expect(sockets.size).toBe(1);
  });

  it('valise.http() calls principal() only for MCP requests', async () => {
    const valise = createValise({
      name: 'body',
      principal: () => {
        throw new Error('nobody should ask');
      },
    });
    const url = await listen(valise.http((_request, response) => void response.end('ok')));
    const headers = { 'content-type': 'application/json' };
    expect((await fetch(url, { method: 'POST', headers, body: '{}' })).status).toBe(200);
    expect((await fetch(url)).status).toBe(200);
  });
});
