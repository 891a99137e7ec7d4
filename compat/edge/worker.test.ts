import { Client } from '@modelcontextprotocol/client';
import { openValise } from 'mcp-valise/client';
import { memoryStore } from 'mcp-valise/store';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { startRedis } from '../../scripts/services.mjs';
import { startUpstash, type UpstashServer } from '../../test/store/upstash-server.ts';
import { Runtime } from './runtime.ts';

let redis: Awaited<ReturnType<typeof startRedis>>;
let upstash: UpstashServer;
let runtime: Runtime;
beforeAll(async () => {
  redis = await startRedis();
  upstash = await startUpstash(redis.url);
  runtime = await Runtime.start({ UPSTASH: upstash.storeUrl });
});
afterAll(async () => {
  await runtime?.stop();
  await upstash?.close();
  await redis?.stop();
});

it('requests to a Worker that come at the same time share a store over HTTP', async () => {
  const counts = await Promise.all(
    Array.from({ length: 20 }, async () => (await fetch(new URL('/count', runtime.url))).json()),
  );
  expect(counts.sort((one, other) => one - other)).toEqual(Array.from({ length: 20 }, (_, at) => at + 1));
});

it('a server on Workers keeps a large session in KV and Durable Objects, across a restart of the runtime', async () => {
  const valise = await openValise({ store: memoryStore() });
  const client = new Client({ name: 'test', version: '1.0.0' }, { versionNegotiation: { mode: 'auto' } });
  await valise.connect(client, runtime.url);
  const session = await valise.sessions(client).create();
  const write = async () => {
    const call = { name: 'write', arguments: { text: 'x'.repeat(9000) } };
    return (await session.run(() => client.callTool(call))).content;
  };
  expect(await write()).toMatchObject([{ text: '1 notes, 9000 letters' }]);
  const kept = async () => (await (await runtime.miniflare.getKVNamespace('KV')).list()).keys.length;
  expect(await kept()).toBe(1);
  expect(await write()).toMatchObject([{ text: '2 notes, 18000 letters' }]);
  expect(await kept()).toBe(2);
  await runtime.restart();
  expect(await write()).toMatchObject([{ text: '3 notes, 27000 letters' }]);
  await client.close();
  await valise.close();
});
