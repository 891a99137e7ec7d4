import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { Client as ClientV2 } from '@modelcontextprotocol/client';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { openValise } from 'mcp-valise/client';
import { memoryStore } from 'mcp-valise/store';
import { afterEach, describe, expect, it } from 'vitest';
import { KINDS, type Kind } from './hosts.ts';

const info = { name: 'cut', version: '1.0.0' };
const event = (message: object, id?: string): string =>
  `${id ? `id: ${id}\n` : ''}data: ${JSON.stringify(message)}\n\n`;

interface Request {
  readonly id: number;
  readonly method: string;
  readonly params?: { readonly protocolVersion?: string };
}

/** What the server does with a `tools/call`, and with a GET. */
interface Script {
  call(response: ServerResponse, request: Request): void;
  get?(response: ServerResponse, request: IncomingMessage): void;
  /** What else comes by POST. */
  other?(response: ServerResponse, message: { readonly id?: number; readonly result?: unknown }): void;
}

const cleanUp: (() => Promise<unknown> | unknown)[] = [];
afterEach(async () => {
  for (const step of cleanUp.splice(0).reverse()) await step();
});

async function serve(script: Script): Promise<string> {
  const http = createServer(async (request, response) => {
    if (request.method !== 'POST')
      return script.get ? script.get(response, request) : void response.writeHead(405).end();
    const message = JSON.parse(await text(request)) as Request;
    if (message.method === 'tools/call') return script.call(response, message);
    if (message.id === undefined || !message.method) {
      if (message.method || !script.other) return void response.writeHead(202).end();
      return script.other(response, message);
    }
    const capabilities = { tools: {} };
    // What an introduction, old or new, and a list of tools take.
    const result = {
      resultType: 'complete',
      protocolVersion: message.params?.protocolVersion,
      supportedVersions: ['2026-07-28'],
      capabilities,
      serverInfo: info,
      _meta: { 'io.modelcontextprotocol/serverInfo': info },
      tools: [],
      ttlMs: 0,
      cacheScope: 'private',
    };
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ jsonrpc: '2.0', id: message.id, result }));
  }).listen(0, '127.0.0.1');
  await once(http, 'listening');
  cleanUp.push(() => {
    http.closeAllConnections();
    http.close();
  });
  return `http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp`;
}

async function connect(kind: Kind, url: string, answer?: () => Promise<object>): Promise<ClientV2> {
  const capabilities = answer ? { elicitation: { form: {} } } : {};
  const valise = await openValise({ store: memoryStore() });
  const mode = kind.era === 'modern' ? { pin: '2026-07-28' } : ('legacy' as const);
  const client =
    kind.major === 'v1'
      ? new ClientV1(info, { capabilities })
      : new ClientV2(info, { capabilities, versionNegotiation: { mode } });
  if (answer && client instanceof ClientV1)
    client.setRequestHandler(ElicitRequestSchema, () => answer() as never);
  else if (answer) (client as ClientV2).setRequestHandler('elicitation/create', () => answer() as never);
  await valise.connect(client, url);
  cleanUp.push(
    () => valise.close(),
    () => client.close(),
  );
  return client as ClientV2;
}

function stream(response: ServerResponse): ServerResponse {
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  response.flushHeaders();
  return response;
}

const notice = (text: string) =>
  event({ jsonrpc: '2.0', method: 'notifications/message', params: { level: 'info', data: text } });
const done = (id: number, eventId?: string) =>
  event({ jsonrpc: '2.0', id, result: { resultType: 'complete', content: [] } }, eventId);

const params = { message: 'Well?', requestedSchema: { type: 'object', properties: {} } };

describe.each(KINDS)('a $kind client whose response is cut off', (kind) => {
  it.each([
    ['ends', (response: ServerResponse) => void response.end(notice('so far'))],
    ['breaks', (response: ServerResponse) => response.write(notice('so far'), () => response.destroy())],
  ])('A call fails at once if the stream %s without a result and cannot be resumed', async (_, cut) => {
    const client = await connect(kind, await serve({ call: (response) => cut(stream(response)) }));
    await expect(client.callTool({ name: 'a' })).rejects.toMatchObject({
      code: -32_000,
      message: expect.stringContaining('broke off before the call was answered'),
    });
  });

  it('A call fails if the connection breaks before any response', async () => {
    const client = await connect(kind, await serve({ call: (response) => void response.destroy() }));
    await expect(client.callTool({ name: 'a' })).rejects.toMatchObject({
      code: -32_000,
      message: expect.stringContaining('may have carried it out'),
    });
  });

  it('A call fails if the server answers 202 without a result', async () => {
    const client = await connect(
      kind,
      await serve({ call: (response) => void response.writeHead(202).end() }),
    );
    await expect(client.callTool({ name: 'a' })).rejects.toMatchObject({
      code: -32_000,
      message: expect.stringContaining('may have carried it out'),
    });
  });

  it('A call fails if the JSON body breaks off', async () => {
    const call = (response: ServerResponse, { id }: Request): void => {
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': '1000' });
      response.write(`{"jsonrpc":"2.0","id":${id},"result":`, () => response.destroy());
    };
    const client = await connect(kind, await serve({ call }));
    await expect(client.callTool({ name: 'a' })).rejects.toMatchObject({ code: -32_000 });
  });

  it.each(['[]', '{"jsonrpc":"2.0","id":"another","result":{}}'])(
    'A call fails if the JSON body holds no response: %s',
    async (body) => {
      const call = (response: ServerResponse): void =>
        void response.writeHead(200, { 'content-type': 'application/json' }).end(body);
      const client = await connect(kind, await serve({ call }));
      client.onerror = () => {};
      await expect(client.callTool({ name: 'a' })).rejects.toMatchObject({ code: -32_000 });
    },
  );

  it('An abandoned call gets no further response', async () => {
    let called: (response: ServerResponse) => void = () => {};
    const call = new Promise<ServerResponse>((resolve) => (called = resolve));
    const client = await connect(kind, await serve({ call: (response) => called(stream(response)) }));
    const errors: Error[] = [];
    client.onerror = (error) => errors.push(error);
    const stop = new AbortController();
    const options = { signal: stop.signal };
    const given = kind.major === 'v1' ? [undefined, options] : [options];
    const result = client.callTool({ name: 'a' }, ...(given as [typeof options]));
    const response = await call;
    stop.abort('no more');
    await expect(result).rejects.toThrow();
    const gone = once(response, 'close');
    response.end();
    await gone;
    await client.listTools();
    expect(errors).toEqual([]);
  });

  it('A call takes a result that arrives at the last moment', async () => {
    const url = await serve({ call: (response, { id }) => void stream(response).end(done(id)) });
    const client = await connect(kind, url);
    expect(await client.callTool({ name: 'a' })).toMatchObject({ content: [] });
  });
});

describe.each(KINDS.filter(({ era }) => era === 'legacy'))(
  'a $kind client with resumable streams',
  (kind) => {
    const first = (response: ServerResponse, { id }: Request): void =>
      void stream(response).end(`retry: 1\nid: call-${id}\ndata: \n\n`);

    it('A call gets the result that arrives on the resumed stream', async () => {
      const taken: unknown[] = [];
      let asked = 0;
      const url = await serve({
        call: (response, request) => {
          asked = request.id;
          first(response, request);
        },
        get(response, request) {
          const from = request.headers['last-event-id'];
          if (from === undefined) return void response.writeHead(405).end();
          taken.push(from);
          // Once more cut off, behind another event.
          if (taken.length === 1) stream(response).end(`id: more\ndata: \n\n`);
          else stream(response).end(done(asked, 'last'));
        },
      });
      const client = await connect(kind, url);
      expect(await client.callTool({ name: 'a' })).toMatchObject({ content: [] });
      expect(taken).toEqual([`call-${asked}`, 'more']);
    });

    it.each([404, 405, 500])('A call fails if the server answers the resumption with %d', async (status) => {
      const url = await serve({ call: first, get: (response) => void response.writeHead(status).end() });
      const client = await connect(kind, url);
      await expect(client.callTool({ name: 'a' })).rejects.toMatchObject({ code: -32_000 });
    });

    it.each(['application/json', undefined])(
      'A call fails if the resumption has the content type %s',
      async (type) => {
        const url = await serve({
          call: first,
          get: (response) =>
            void (type
              ? response.writeHead(200, { 'content-type': type }).end('{}')
              : response.writeHead(204).end()),
        });
        const client = await connect(kind, url);
        await expect(client.callTool({ name: 'a' })).rejects.toMatchObject({ code: -32_000 });
      },
    );

    it('A call waits a while for a response on an open standalone stream', async () => {
      let standing: ServerResponse | undefined;
      let asked: number | undefined;
      const url = await serve({
        call(response, { id }) {
          asked = id;
          stream(response).end(':\n\n');
        },
        get: (response) => {
          standing = stream(response);
          standing.write(':\n\n');
        },
      });
      const client = await connect(kind, url);
      await expect.poll(() => standing).toBeDefined();
      await client.listTools();
      const result = client.callTool({ name: 'a' });
      await expect.poll(() => asked).toBeDefined();
      await client.listTools();
      standing?.write(done(asked as number));
      expect(await result).toMatchObject({ content: [] });
    });

    it('A call fails if the resumed stream ends without events', async () => {
      const url = await serve({
        call: first,
        get: (response, { headers }) =>
          headers['last-event-id'] ? void stream(response).end(':\n\n') : void response.writeHead(405).end(),
      });
      const client = await connect(kind, url);
      await expect(client.callTool({ name: 'a' })).rejects.toMatchObject({ code: -32_000 });
    });

    it('The end of the stream that accepts an answer does not end the call', async () => {
      let call: ServerResponse | undefined;
      let asked = 0;
      let thanked = false;
      const url = await serve({
        call(response, { id }) {
          call = response;
          asked = id;
          // Under the number that the call has, as servers count by themselves.
          stream(response).write(event({ jsonrpc: '2.0', id, method: 'elicitation/create', params }));
        },
        other(response) {
          stream(response).end(notice('thanks'), () => (thanked = true));
        },
      });
      const client = await connect(kind, url, async () => ({ action: 'accept', content: {} }));
      const result = client.callTool({ name: 'a' });
      await expect.poll(() => thanked).toBe(true);
      await client.listTools();
      call?.end(done(asked));
      expect(await result).toMatchObject({ content: [] });
    });

    it('A call fails if the stream breaks after a question, and while another call asks one', async () => {
      let calls = 0;
      const url = await serve({
        call(response) {
          calls += 1;
          const question = event({ jsonrpc: '2.0', id: 900 + calls, method: 'elicitation/create', params });
          if (calls === 1) stream(response).write(question);
          else stream(response).end(question);
        },
      });
      let asked = 0;
      const client = await connect(kind, url, () => {
        asked += 1;
        return new Promise(() => {});
      });
      const first = client.callTool({ name: 'a' }).catch(() => 'closed');
      await expect.poll(() => asked).toBe(1);
      await expect(client.callTool({ name: 'a' })).rejects.toMatchObject({ code: -32_000 });
      expect(asked).toBe(2);
      await client.close();
      expect(await first).toBe('closed');
    });
  },
);
