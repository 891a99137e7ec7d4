import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createInterface } from 'node:readline';
import { json } from 'node:stream/consumers';
import { Client } from '@modelcontextprotocol/client';
import { describe, expect, it, onTestFinished } from 'vitest';
import { bridge, call, PINNED, pinned, TARGETS } from './newer-host.ts';
import { VALISE, valise } from './valise.ts';

/** What each request of the newer era says of its sender. */
const _meta = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientCapabilities': { elicitation: {} },
};

interface Answer {
  readonly result?: Record<string, unknown>;
  readonly error?: Record<string, unknown>;
}

/** A host that is no SDK's, and says whatever it is told to say. */
function raw(target: string) {
  const child = spawn(process.execPath, [VALISE, 'connect', target, '--store', 'memory:'], {
    stdio: ['pipe', 'pipe', 'ignore'],
  });
  onTestFinished(async () => {
    const gone = once(child, 'close');
    child.stdin.end();
    await gone;
  });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const tell = (message: object): void =>
    void child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
  const ask = async (id: number, method: string, params: object): Promise<Answer> => {
    tell({ id, method, params });
    const { value } = await lines.next();
    return JSON.parse(value) as Answer;
  };
  return { ask, tell };
}

describe('valise connect and who falls back', () => {
  it('leaves a host that negotiates to the older era by default', async () => {
    const target = await TARGETS.stdio();
    const host = async (era: string): Promise<Client> => {
      const mode = { versionNegotiation: { mode: 'auto' as const } };
      const client = new Client({ name: 'host', version: '1.0.0' }, mode);
      await client.connect(bridge(target, era));
      onTestFinished(() => client.close());
      return client;
    };
    expect((await host('auto')).getProtocolEra()).toBe('legacy');
    expect((await host('modern')).getProtocolEra()).toBe('modern');
    const never = new Client({ name: 'host', version: '1.0.0' }, PINNED);
    await expect(never.connect(bridge(target, 'legacy'))).rejects.toThrow(/did not offer pinned/);
  });

  it('begins nothing in the older era at a server that did not say that it is older', async () => {
    const methods: unknown[] = [];
    const server = createServer(async (request, response) => {
      methods.push(((await json(request)) as { method?: unknown }).method);
      response.writeHead(503).end();
    }).listen(0, '127.0.0.1');
    onTestFinished(() => void server.close());
    await once(server, 'listening');
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
    await expect(pinned(url)).rejects.toThrow(/did not offer pinned/);
    expect(methods).toEqual(['server/discover']);
  });

  it('hands the era on in what it prints for a host', async () => {
    const url = 'https://shop.example.com/mcp';
    const { stdout } = await valise(['connect', '--print-config', 'claude', '--era', 'modern', url]);
    expect(JSON.parse(stdout)).toMatchObject({
      mcpServers: {
        'shop.example.com': { args: expect.arrayContaining(['connect', url, '--era', 'modern']) },
      },
    });
  });

  it('leads a host that speaks the newer era without asking for it', async () => {
    const target = await TARGETS.HTTP();
    const client = new Client({ name: 'host', version: '1.0.0' }, PINNED);
    const discover = {
      supportedVersions: ['2026-07-28'],
      capabilities: { tools: {} },
      ttlMs: 0,
      cacheScope: 'private' as const,
    };
    await client.connect(bridge(target, 'auto'), { prior: { kind: 'modern', discover } });
    onTestFinished(() => client.close());
    expect(await call(client, 'add', { a: 1, b: 1 })).toBe('2');
  });

  it('leads a host that asks again after a refusal, and lets go of one that then falls back', async () => {
    const target = await TARGETS.stdio();
    const { ask, tell } = raw(target);
    expect(await ask(1, 'server/discover', { _meta })).toMatchObject({ id: 1, error: { code: -32601 } });
    expect(await ask(2, 'server/discover', { _meta })).toMatchObject({
      id: 2,
      result: { resultType: 'complete', supportedVersions: ['2026-07-28'], ttlMs: 0, cacheScope: 'private' },
    });
    expect(await ask(3, 'prompts/list', { _meta })).toMatchObject({ id: 3, result: { ttlMs: 0 } });
    const initialize = {
      protocolVersion: '2025-11-25',
      capabilities: {},
      clientInfo: { name: 'h', version: '1' },
    };
    expect(await ask(4, 'initialize', initialize)).toMatchObject({
      id: 4,
      result: { protocolVersion: '2025-11-25', serverInfo: { name: 'older' } },
    });
    tell({ method: 'notifications/initialized' });
    const { result } = await ask(5, 'prompts/list', {});
    expect(result).not.toHaveProperty('resultType');
    expect(result).toMatchObject({ prompts: [{ name: 'hello' }] });
  });

  it('asks again what was left out, and knows no calls but those under way', async () => {
    const { ask } = raw(await TARGETS.stdio());
    const greet = { name: 'greet', arguments: {}, _meta };
    const { result } = await ask(1, 'tools/call', greet);
    const first = { method: 'elicitation/create', params: { message: 'Your name?' } };
    expect(result).toMatchObject({ resultType: 'input_required', inputRequests: { q1: first } });
    const { requestState } = result ?? {};
    expect(await ask(2, 'tools/call', { ...greet, requestState: 'another' })).toMatchObject({
      error: { code: -32602 },
    });
    expect(await ask(3, 'tools/call', { ...greet, requestState, inputResponses: {} })).toMatchObject({
      result: { resultType: 'input_required', inputRequests: { q2: first }, requestState },
    });
    const inputResponses = { q2: { action: 'decline' } };
    expect(await ask(4, 'tools/call', { ...greet, requestState, inputResponses })).toMatchObject({
      result: { resultType: 'complete', content: [{ text: 'not told: decline' }] },
    });
    expect(await ask(5, 'tools/call', { ...greet, requestState, inputResponses })).toMatchObject({
      error: { code: -32602 },
    });
  });
});
