import { join } from 'node:path';
import { generateKey } from 'mcp-valise/seal';
import { describe, expect, it } from 'vitest';
import { sdkHost } from './sdk-hosts.ts';
import { folder, serveExample, VALISE } from './valise.ts';

describe.each(['v1', 'v2'] as const)('valise connect for a %s host that cannot be asked', (kind) => {
  it('works with each start before a server that asks, and beside one that is open', {
    timeout: 120_000,
  }, async () => {
    const { url } = await serveExample(['work-items'], { VALISE_KEYS: generateKey() });
    const store = ['--store', `sqlite:${join(await folder(), 'state.db')}`];
    const start = async () => {
      const { client } = await sdkHost(kind, [process.execPath, VALISE, 'connect', url, ...store]);
      return client;
    };
    const tools = async (client: Awaited<ReturnType<typeof start>>) =>
      (await client.listTools()).tools.map(({ name }) => name);
    const first = await start();
    const expected = await tools(first);
    expect(expected).toContain('update_work_item');
    const beside = await start();
    expect(await tools(beside)).toEqual(expected);
    expect(await tools(first)).toEqual(expected);
    await beside.close();
    await first.close();
    for (const _ of ['second', 'third', 'fourth']) {
      const client = await start();
      expect(await tools(client)).toEqual(expected);
      await client.close();
    }
  });
});
