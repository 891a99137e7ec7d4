import { Client, type ResponseCacheStore, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server';
import { responseCache } from 'mcp-valise/adapters';
import { memoryStore, type Store } from 'mcp-valise/store';
import { virtualClock } from 'mcp-valise/testing';
import { describe, expect, it, onTestFinished } from 'vitest';
import { places } from './places.ts';

const read = (params: string) => ({ method: 'resources/read', params, partition: 'p' });
const TOOLS = { method: 'tools/list', partition: 'p' };

describe.each(places)('responseCache on %s', (_, share) => {
  it('hands back what another instance wrote, with rising stamps, apart by method, parameters and partition', async () => {
    const open = share();
    const first: ResponseCacheStore = responseCache(await open());
    const second = responseCache(await open());
    const entry = { value: '{"a":1}', expiresAt: Date.now() + 60_000, scope: 'private' as const };
    const stamp = await first.set(TOOLS, entry);
    expect(await second.get(TOOLS)).toEqual({ ...entry, stamp });
    expect(await second.get({ ...TOOLS, params: '' })).toEqual({ ...entry, stamp });
    expect(await second.get({ ...TOOLS, partition: 'q' })).toBeUndefined();
    expect(await second.get({ ...TOOLS, params: 'x' })).toBeUndefined();
    const later = await second.set(TOOLS, { value: '2' });
    expect(later).toBeGreaterThan(stamp);
    expect(await first.get(TOOLS)).toEqual({ value: '2', stamp: later });
    await first.delete(TOOLS);
    expect(await second.get(TOOLS)).toBeUndefined();
    expect(await first.set(TOOLS, { value: '3' })).not.toBe(later);
  });

  it('evicts a method in all partitions, and clears everything', async () => {
    const store = await share()();
    const cache = responseCache(store);
    await cache.set(TOOLS, { value: '1' });
    await cache.set({ ...TOOLS, partition: 'q' }, { value: '2' });
    await cache.set(read('a'), { value: '3' });
    await cache.set({ method: 'prompts/list' }, { value: '4' });
    await cache.evict('tools/list');
    expect(await cache.get(TOOLS)).toBeUndefined();
    expect(await cache.get({ ...TOOLS, partition: 'q' })).toBeUndefined();
    expect(await cache.get(read('a'))).toMatchObject({ value: '3' });
    expect(await cache.get({ method: 'prompts/list' })).toMatchObject({ value: '4' });
    await cache.clear();
    expect((await store.list('')).keys).toEqual([]);
  });

  it('drops the oldest resources beyond maxEntries, and no list for a resource', async () => {
    const cache = responseCache(await share()(), { maxEntries: 3 });
    await cache.set(TOOLS, { value: 'tools' });
    for (const name of ['a', 'b', 'c', 'd', 'e']) await cache.set(read(name), { value: name });
    const held = await Promise.all(['a', 'b', 'c', 'd', 'e'].map((name) => cache.get(read(name))));
    expect(held.map((entry) => entry?.value)).toEqual([undefined, undefined, 'c', 'd', 'e']);
    expect(await cache.get(TOOLS)).toMatchObject({ value: 'tools' });
  });
});

describe('responseCache', () => {
  it('spares a second stock client the requests that the first one has made', async () => {
    const store = memoryStore();
    let lists = 0;
    const handler = createMcpHandler(() => {
      const options = { cacheHints: { 'tools/list': { ttlMs: 60_000, cacheScope: 'public' as const } } };
      const server = new McpServer({ name: 'cached', version: '1.0.0' }, options);
      server.registerTool('one', {}, () => ({ content: [] }));
      return server;
    });
    const fetch = async (input: string | URL, init?: RequestInit): Promise<Response> => {
      const request = new Request(input, init);
      if ((await request.clone().text()).includes('"tools/list"')) lists++;
      return handler.fetch(request);
    };
    for (const _ of ['first', 'second']) {
      const client = new Client(
        { name: 'stock', version: '1.0.0' },
        { responseCacheStore: responseCache(store), versionNegotiation: { mode: { pin: '2026-07-28' } } },
      );
      await client.connect(new StreamableHTTPClientTransport(new URL('http://127.0.0.1/mcp'), { fetch }));
      expect((await client.listTools()).tools.map(({ name }) => name)).toEqual(['one']);
      await client.close();
    }
    expect(lists).toBe(1);
  });

  it('does not cache a value over maxBytes, and drops the one before it', async () => {
    const cache = responseCache(memoryStore(), { maxBytes: 1024 });
    await cache.set(TOOLS, { value: 'small' });
    expect(await cache.set(TOOLS, { value: 'x'.repeat(2000) })).toBeGreaterThan(0);
    expect(await cache.get(TOOLS)).toBeUndefined();
  });

  it('keeps a stale entry for the client until ttl is over, and then nothing', async () => {
    const clock = virtualClock();
    onTestFinished(() => clock.restore());
    const store: Store = memoryStore();
    const cache = responseCache(store, { ttl: '2h' });
    await cache.set(TOOLS, { value: '1', expiresAt: Date.now() + 1000 });
    await clock.advance('1h');
    expect(await cache.get(TOOLS)).toMatchObject({ value: '1' });
    await clock.advance('2h');
    expect((await store.list('')).keys).toEqual([]);
  });
});
