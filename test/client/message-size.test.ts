import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { Client as ClientV2, StreamableHTTPClientTransport as HttpV2 } from '@modelcontextprotocol/client';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as HttpV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { type ClientEvents, openValise } from 'mcp-valise/client';
import { memoryStore } from 'mcp-valise/store';
import { afterEach, describe, expect, it } from 'vitest';
import { KINDS, type Kind } from './hosts.ts';

const info = { name: 'large', version: '1.0.0' };
const LIMIT = 256 * 1024;
/** What the kernel and Node hold between the two sides, besides the limit. */
const SLACK = 16 * 1024 * 1024;
const PIECE = 'x'.repeat(64 * 1024);

const cleanUp: (() => Promise<unknown> | unknown)[] = [];
afterEach(async () => {
  for (const step of cleanUp.splice(0).reverse()) await step();
});

/** Writes without end; how many bytes were written when the other side hung up. */
function endless(response: ServerResponse): Promise<number> {
  return new Promise((resolve) => {
    let sent = 0;
    let open = true;
    response.once('close', () => {
      open = false;
      resolve(sent);
    });
    const more = (): void => {
      while (open && sent < 64 * SLACK) {
        sent += PIECE.length;
        if (!response.write(PIECE)) return void response.once('drain', more);
      }
    };
    more();
  });
}

interface Script {
  call(response: ServerResponse, id: number): void;
  get?(response: ServerResponse, lastEventId: string | undefined): void;
}

async function serve(script: Script): Promise<URL> {
  const http = createServer(async (request, response) => {
    if (request.method !== 'POST')
      return script.get
        ? script.get(response, request.headers['last-event-id'] as string | undefined)
        : void response.writeHead(405).end();
    const message = JSON.parse(await text(request)) as {
      readonly id?: number;
      readonly method: string;
      readonly params?: { readonly protocolVersion?: string };
    };
    if (message.id === undefined) return void response.writeHead(202).end();
    if (message.method === 'tools/call') return script.call(response, message.id);
    const result = {
      resultType: 'complete',
      protocolVersion: message.params?.protocolVersion,
      supportedVersions: ['2026-07-28'],
      capabilities: { tools: {} },
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
  return new URL(`http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp?key=hidden`);
}

type Way = 'a URL' | "the SDK's own transport";

async function connect({ major, era }: Kind, url: URL, way: Way) {
  const valise = await openValise({ store: memoryStore(), maxMessageBytes: LIMIT });
  const cut: ClientEvents['message-too-large'][] = [];
  valise.on('message-too-large', (event) => cut.push(event));
  const mode = era === 'modern' ? { pin: '2026-07-28' } : ('legacy' as const);
  const client = major === 'v1' ? new ClientV1(info) : new ClientV2(info, { versionNegotiation: { mode } });
  const Http = major === 'v1' ? HttpV1 : HttpV2;
  await valise.connect(client, way === 'a URL' ? url : (new Http(url) as never));
  cleanUp.push(
    () => valise.close(),
    () => client.close(),
  );
  return { client, cut };
}

/** With a timeout that no test waits for. */
const call = (client: ClientV2 | ClientV1): Promise<unknown> =>
  client instanceof ClientV1
    ? client.callTool({ name: 'a' }, undefined, { timeout: 600_000 })
    : client.callTool({ name: 'a' }, { timeout: 600_000 });
const tooLarge = (what: string) =>
  expect.objectContaining({
    message: expect.stringContaining(`The server sent ${what} of more than ${LIMIT} bytes.`),
  });
const WAYS: Way[] = ['a URL', "the SDK's own transport"];

describe.each(KINDS.flatMap((kind) => WAYS.map((way) => ({ ...kind, way }))))(
  'a $kind client over $way with a message size limit',
  ({ way, ...kind }) => {
    it('A call fails if its server-sent event has no end, and the client disconnects', async () => {
      let sent: Promise<number> | undefined;
      const url = await serve({
        call(response) {
          response.writeHead(200, { 'content-type': 'text/event-stream' });
          response.write('data: {"jsonrpc":"2.0","method":"notifications/message","params":{"x":"');
          sent = endless(response);
        },
      });
      const { client, cut } = await connect(kind, url, way);
      await expect(call(client)).rejects.toThrow(tooLarge('a server-sent event'));
      expect(await sent).toBeLessThan(LIMIT + SLACK);
      expect(cut).toEqual([{ server: `${url.origin}/mcp`, what: 'event', maxBytes: LIMIT }]);
    });

    it('A call fails if its JSON body has no end, and the client disconnects', async () => {
      let sent: Promise<number> | undefined;
      const url = await serve({
        call(response, id) {
          response.writeHead(200, { 'content-type': 'application/json' });
          response.write(`{"jsonrpc":"2.0","id":${id},"result":{"x":"`);
          sent = endless(response);
        },
      });
      const { client, cut } = await connect(kind, url, way);
      await expect(call(client)).rejects.toThrow(tooLarge('a response body'));
      expect(await sent).toBeLessThan(LIMIT + SLACK);
      expect(cut).toEqual([{ server: `${url.origin}/mcp`, what: 'body', maxBytes: LIMIT }]);
    });

    it('A call fails if its error response has no end, and the client disconnects', async () => {
      let sent: Promise<number> | undefined;
      const url = await serve({
        call(response) {
          response.writeHead(500, { 'content-type': 'text/plain' });
          sent = endless(response);
        },
      });
      const { client, cut } = await connect(kind, url, way);
      await expect(call(client)).rejects.toThrow();
      expect(await sent).toBeLessThan(LIMIT + SLACK);
      expect(cut).toMatchObject([{ what: 'body' }]);
    });

    it('A client does not fetch an oversized event again, and other calls continue', async () => {
      const asked: (string | undefined)[] = [];
      let calls = 0;
      const begin = (response: ServerResponse): void => {
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        response.write('id: e1\nretry: 1\ndata:\n\n');
      };
      const url = await serve({
        call(response, id) {
          begin(response);
          const result = { resultType: 'complete', content: [] };
          if (calls++ > 0)
            return void response.end(`data: ${JSON.stringify({ jsonrpc: '2.0', id, result })}\n\n`);
          response.write('data: {"x":"');
          return void endless(response);
        },
        get(response, lastEventId) {
          asked.push(lastEventId);
          if (lastEventId === undefined) return void response.writeHead(405).end();
          begin(response);
          response.write('data: {"x":"');
          return void endless(response);
        },
      });
      const { client, cut } = await connect(kind, url, way);
      await expect(call(client)).rejects.toThrow(tooLarge('a server-sent event'));
      for (let at = 0; at < 20; at++) await expect(call(client)).resolves.toMatchObject({ content: [] });
      expect(asked.filter((id) => id !== undefined)).toEqual([]);
      expect(cut).toHaveLength(1);
    });

    it('Any number of messages up to the size limit pass', async () => {
      const large = 'y'.repeat(LIMIT - 1024);
      const url = await serve({
        call(response, id) {
          response.writeHead(200, { 'content-type': 'text/event-stream' });
          const params = { level: 'info', data: large };
          const notice = { jsonrpc: '2.0', method: 'notifications/message', params };
          for (let at = 0; at < 5; at++) response.write(`data: ${JSON.stringify(notice)}\n\n`);
          const result = { resultType: 'complete', content: [{ type: 'text', text: large }] };
          response.end(`data: ${JSON.stringify({ jsonrpc: '2.0', id, result })}\n\n`);
        },
      });
      const { client, cut } = await connect(kind, url, way);
      await expect(call(client)).resolves.toMatchObject({ content: [{ text: large }] });
      expect(cut).toEqual([]);
    });
  },
);

describe.each(KINDS.filter(({ era }) => era === 'legacy'))('a $kind client whose stream breaks', (kind) => {
  it.each(WAYS)('A call fails if the resumed stream exceeds the limit, over %s', async (way) => {
    const url = await serve({
      call(response) {
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        response.end('id: e1\nretry: 1\ndata:\n\n');
      },
      get(response, lastEventId) {
        if (lastEventId === undefined) return void response.writeHead(405).end();
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        response.write('data: {"x":"');
        return void endless(response);
      },
    });
    const { client, cut } = await connect(kind, url, way);
    await expect(call(client)).rejects.toThrow(tooLarge('a server-sent event'));
    expect(cut).toMatchObject([{ what: 'event' }]);
  });
});

describe.each(KINDS)('a $kind client that signs in', (kind) => {
  it('A client stops reading metadata that has no end', async () => {
    const sent: Promise<number>[] = [];
    const http = createServer((request, response) => {
      request.resume();
      if (request.method === 'POST' && request.url === '/mcp')
        return void response.writeHead(401, { 'www-authenticate': 'Bearer' }).end();
      response.writeHead(200, { 'content-type': 'application/json' });
      response.write('{"resource":"');
      sent.push(endless(response));
    }).listen(0, '127.0.0.1');
    await once(http, 'listening');
    cleanUp.push(() => {
      http.closeAllConnections();
      http.close();
    });
    const valise = await openValise({ store: memoryStore() });
    cleanUp.push(() => valise.close());
    const cut: ClientEvents['message-too-large'][] = [];
    valise.on('message-too-large', (event) => cut.push(event));
    const url = `http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp`;
    const mode = kind.era === 'modern' ? { pin: '2026-07-28' } : ('legacy' as const);
    const client =
      kind.major === 'v1' ? new ClientV1(info) : new ClientV2(info, { versionNegotiation: { mode } });
    await expect(valise.connect(client, url, { auth: { redirect: () => {} } })).rejects.toThrow();
    const each = await Promise.all(sent);
    expect(each.length).toBeGreaterThan(0);
    for (const bytes of each) expect(bytes).toBeLessThan(1024 * 1024 + SLACK);
    expect(cut[0]).toMatchObject({ what: 'body', maxBytes: 1024 * 1024 });
  });
});

describe.each(KINDS)('a $kind client of a stdio server', (kind) => {
  it('A line without an end stops the server and its calls', async () => {
    const valise = await openValise({ store: memoryStore(), maxMessageBytes: LIMIT });
    cleanUp.push(() => valise.close());
    const cut: ClientEvents['message-too-large'][] = [];
    valise.on('message-too-large', (event) => cut.push(event));
    const script = `
      const result = { protocolVersion: '2025-11-25', supportedVersions: ['2026-07-28'], resultType: 'complete',
        capabilities: { tools: {} }, serverInfo: { name: 'a', version: '1' }, ttlMs: 0, cacheScope: 'private',
        _meta: { 'io.modelcontextprotocol/serverInfo': { name: 'a', version: '1' } } };
      const endless = () => process.stdout.write('x'.repeat(65536), endless);
      require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
        const { id, method } = JSON.parse(line);
        if (method === 'tools/call') endless();
        else if (id !== undefined) console.log(JSON.stringify({ jsonrpc: '2.0', id, result }));
      });`;
    const mode = kind.era === 'modern' ? { pin: '2026-07-28' } : ('legacy' as const);
    const client =
      kind.major === 'v1' ? new ClientV1(info) : new ClientV2(info, { versionNegotiation: { mode } });
    const errors: unknown[] = [];
    client.onerror = (error) => void errors.push(error);
    const command = {
      command: process.execPath,
      args: ['-e', script],
      stderr: 'ignore',
      grace: 0.2,
    } as const;
    await valise.connect(client, command);
    await expect(call(client)).rejects.toThrow('Connection closed');
    expect(errors).toContainEqual(expect.objectContaining({ code: 'too-large' }));
    expect(cut).toEqual([{ server: process.execPath, what: 'line', maxBytes: LIMIT }]);
  });
});
