import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Client as ClientV2 } from '@modelcontextprotocol/client';
import { StdioClientTransport as StdioV2 } from '@modelcontextprotocol/client/stdio';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport as StdioV1 } from '@modelcontextprotocol/sdk/client/stdio.js';
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server';
import { describe, expect, it, onTestFinished } from 'vitest';
import { z } from 'zod';
import { markedArguments, paramHeaders } from '../../src/client/host/tool-headers.ts';
import { VALISE } from './valise.ts';

interface Served {
  readonly url: string;
  /** Method and headers of each request, in the order in which they came. */
  readonly seen: { readonly method: string; readonly headers: IncomingHttpHeaders }[];
  /** What the tool calls its header from now on. */
  rename(header: string): void;
  /** Resolves once the tool `wait` runs, and once its caller has taken the call back. */
  readonly waits: Promise<void>;
  readonly cancelled: Promise<void>;
}

/** A server that speaks only the newer era, and that checks the headers of each call as the v2 SDK does. */
async function serve(): Promise<Served> {
  let region = 'Region';
  let started = (): void => {};
  let stopped = (): void => {};
  const waits = new Promise<void>((resolve) => (started = resolve));
  const cancelled = new Promise<void>((resolve) => (stopped = resolve));
  const handler = createMcpHandler(
    () => {
      const server = new McpServer({ name: 'newer', version: '1.0.0' });
      const inputSchema = z.object({
        region: z.string().meta({ 'x-mcp-header': region }),
        deep: z
          .object({
            count: z.int().meta({ 'x-mcp-header': 'Count' }),
            live: z.boolean().meta({ 'x-mcp-header': 'Live' }),
          })
          .optional(),
        plain: z.string().optional(),
      });
      server.registerTool('place', { inputSchema }, async (args) => ({
        content: [{ type: 'text', text: args.region }],
      }));
      server.registerTool('wait', { inputSchema: z.object({}) }, async (_args, { mcpReq: { signal } }) => {
        signal.addEventListener('abort', stopped);
        started();
        await cancelled;
        return { content: [] };
      });
      return server;
    },
    { legacy: 'reject' },
  );
  const seen: Served['seen'] = [];
  const answer = toNodeHandler(handler) as RequestListener;
  const server = createServer((request, response) => {
    seen.push({ method: String(request.headers['mcp-method']), headers: request.headers });
    answer(request, response);
  }).listen(0, '127.0.0.1');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
  return { url, seen, rename: (header) => (region = header), waits, cancelled };
}

async function host(major: 'v1' | 'v2', url: string): Promise<ClientV2> {
  const command = {
    command: process.execPath,
    args: [VALISE, 'connect', url, '--store', 'memory:'],
    stderr: 'ignore' as const,
  };
  const info = { name: 'host', version: '1.0.0' };
  const client =
    major === 'v1'
      ? (new ClientV1(info) as unknown as ClientV2)
      : new ClientV2(info, { versionNegotiation: { mode: { pin: '2026-07-28' } } });
  await client.connect((major === 'v1' ? new StdioV1(command) : new StdioV2(command)) as StdioV2);
  onTestFinished(() => client.close());
  return client;
}

const calls = ({ seen }: Served) => seen.filter(({ method }) => method === 'tools/call');
const lists = ({ seen }: Served) => seen.filter(({ method }) => method === 'tools/list');

it('valise connect says once that a server lists more tools than it remembers', async () => {
  const complete = { resultType: 'complete', ttlMs: 0, cacheScope: 'private' };
  const about = { capabilities: { tools: {} }, serverInfo: { name: 'many', version: '1' } };
  const tools = Array.from({ length: 10_002 }, (_, n) => ({
    name: `tool-${n}`,
    inputSchema: { type: 'object' },
  }));
  const server = createServer(async (request, response) => {
    let text = '';
    for await (const chunk of request) text += chunk;
    const { id, method } = JSON.parse(text) as { id?: unknown; method: string };
    if (id === undefined) return void response.writeHead(202).end();
    const isList = method === 'tools/list';
    const result = { ...complete, ...(isList ? { tools } : { ...about, supportedVersions: ['2026-07-28'] }) };
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ jsonrpc: '2.0', id, result }));
  }).listen(0, '127.0.0.1');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  await once(server, 'listening');
  const transport = new StdioV2({
    command: process.execPath,
    args: [
      VALISE,
      'connect',
      `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`,
      '--store',
      'memory:',
    ],
    stderr: 'pipe',
  });
  let said = '';
  transport.stderr?.on('data', (chunk: Buffer) => (said += String(chunk)));
  const client = new ClientV2(
    { name: 'host', version: '1.0.0' },
    { versionNegotiation: { mode: { pin: '2026-07-28' } } },
  );
  await client.connect(transport);
  onTestFinished(() => client.close());
  for (let times = 0; times < 2; times++) expect((await client.listTools()).tools).toHaveLength(10_002);
  await expect.poll(() => said.match(/more than 10000 tools/g)?.length).toBe(1);
});

describe.each(['v1', 'v2'] as const)(
  'valise connect with tools that want headers, for a %s host',
  (major) => {
    it('sends marked arguments as headers, even if nobody has listed the tools', async () => {
      const served = await serve();
      const client = await host(major, served.url);
      const call = {
        name: 'place',
        arguments: { region: 'north', deep: { count: 7, live: true }, plain: 'x' },
      };
      expect(await client.callTool(call)).toMatchObject({ content: [{ text: 'north' }] });
      expect(calls(served)).toHaveLength(1);
      const headers = calls(served)[0]?.headers ?? {};
      expect(headers).toMatchObject({
        'mcp-param-region': 'north',
        'mcp-param-count': '7',
        'mcp-param-live': 'true',
      });
      expect(Object.keys(headers).filter((name) => name.startsWith('mcp-param-'))).toHaveLength(3);
      await client.callTool({ name: 'place', arguments: { region: 'süd' } });
      expect(calls(served)[1]?.headers['mcp-param-region']).toBe('=?base64?c8O8ZA==?=');
      // It asked for the list once, of its own accord.
      expect(lists(served)).toHaveLength(1);
    });

    it('learns from the lists that pass, and asks again if the tool has changed', async () => {
      const served = await serve();
      const client = await host(major, served.url);
      await client.listTools();
      await client.callTool({ name: 'place', arguments: { region: 'north' } });
      expect(lists(served)).toHaveLength(1);
      served.rename('Zone');
      expect(await client.callTool({ name: 'place', arguments: { region: 'east' } })).toMatchObject({
        content: [{ text: 'east' }],
      });
      expect(calls(served).at(-1)?.headers).toMatchObject({ 'mcp-param-zone': 'east' });
      expect(calls(served)).toHaveLength(3);
    });

    it('hangs up where the host cancels, as the newer era does over HTTP', async () => {
      const served = await serve();
      const client = await host(major, served.url);
      const stop = new AbortController();
      const call = client.callTool(
        { name: 'wait', arguments: {} },
        ...(major === 'v1' ? [undefined as never] : []),
        { signal: stop.signal },
      );
      await served.waits;
      stop.abort('enough');
      await expect(call).rejects.toThrow('enough');
      await served.cancelled;
    });
  },
);

describe('headers of arguments', () => {
  const property = (mark: unknown, type = 'string') => ({ type, 'x-mcp-header': mark });
  const schema = (properties: object) => ({ type: 'object', properties });

  it('are those that the schema marks by the rules', () => {
    expect(markedArguments(schema({ a: property('A'), b: { type: 'string' } }))).toEqual([
      { path: ['a'], header: 'Mcp-Param-A' },
    ]);
    expect(markedArguments(schema({ a: property('A'), b: property('a') }))).toEqual([]);
    expect(markedArguments(schema({ a: property('two words') }))).toEqual([]);
    expect(markedArguments(schema({ a: property('A\r\nEvil: 1') }))).toEqual([]);
    expect(markedArguments(schema({ a: property('A', 'object') }))).toEqual([]);
    expect(markedArguments({ items: property('A') })).toEqual([]);
    expect(markedArguments(undefined)).toEqual([]);
  });

  it.each([
    ['plain text', 'plain text'],
    [' edge', '=?base64?IGVkZ2U=?='],
    ['', '=?base64??='],
    ['a\r\nEvil: 1', '=?base64?YQ0KRXZpbDogMQ==?='],
    ['=?base64?YQ==?=', '=?base64?PT9iYXNlNjQ/WVE9PT89?='],
    [false, 'false'],
    [12, '12'],
    [2 ** 60, undefined],
    [null, undefined],
    [{}, undefined],
  ])('are written so that HTTP brings them as they are: %j', (value, header) => {
    const headers = paramHeaders([{ path: ['a'], header: 'Mcp-Param-A' }], { a: value });
    expect(headers['Mcp-Param-A']).toBe(header);
  });
});
