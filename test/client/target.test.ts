import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { openValise } from 'mcp-valise/client';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Around } from './around.ts';
import { type Hosts, openHosts, setting, stateOf } from './hosts.ts';

const SHOP = 'https://shop.example.com/mcp';

it.each([
  ['nothing', undefined],
  ['an object that is no transport', {}],
])('connect() says what is missing if it is called with %s', async (_, to) => {
  const valise = await openValise({ store: 'memory:' });
  const client = new Client({ name: 'test', version: '1.0.0' });
  await expect(valise.connect(client, to as never)).rejects.toThrow(
    /without a server.*a URL, a command.*or a transport/,
  );
  await valise.close();
});

describe('a transport around another', () => {
  let hosts: Hosts;
  beforeEach(async () => {
    hosts = await openHosts();
    hosts.respond = () => setting('legacy', { server: { a: 1 } });
  });
  afterEach(() => hosts.close());

  /** The name that the state of two calls over such a transport is kept under, and what the second one carried. */
  async function called(server: unknown): Promise<readonly unknown[]> {
    const valise = await openValise({ store: 'memory:' });
    const client = new Client({ name: 'test', version: '1.0.0' });
    const inner = new StreamableHTTPClientTransport(new URL(SHOP), { fetch: hosts.fetch });
    await valise.connect(client, new Around(inner), server === undefined ? {} : { server: server as string });
    await client.callTool({ name: 'one' });
    await client.callTool({ name: 'two' });
    const names = valise.jar.list().map((entry) => entry.server);
    await client.close();
    await valise.close();
    return [names, stateOf(hosts.last('tools/call').meta).server];
  }

  it('[J-14] A custom transport gets the state of the server that the application names', async () => {
    expect(await called(SHOP)).toEqual([['shop.example.com'], { a: 1 }]);
    expect(await called(new URL(SHOP))).toEqual([['shop.example.com'], { a: 1 }]);
    expect(await called({ command: process.execPath, args: ['-e', '1'] })).toEqual([
      [expect.stringContaining('node')],
      { a: 1 },
    ]);
  });

  it('A custom transport gets no state if the application names no server', async () => {
    expect(await called(undefined)).toEqual([[], undefined]);
  });

  it('connect() rejects an invalid server name, and a second name for a URL', async () => {
    await expect(called({})).rejects.toMatchObject({ code: 'invalid-argument' });
    await expect(called('shop')).rejects.toMatchObject({ code: 'invalid-argument' });
    const valise = await openValise({ store: 'memory:' });
    const client = new Client({ name: 'test', version: '1.0.0' });
    await expect(valise.connect(client, SHOP, { server: SHOP })).rejects.toMatchObject({
      code: 'invalid-argument',
      message: expect.stringContaining('a URL or a command'),
    });
    await valise.close();
  });
});
