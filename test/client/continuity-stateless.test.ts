import { Client as ClientV2 } from '@modelcontextprotocol/client';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { type ClientValise, openValise, type Store } from 'mcp-valise/client';
import { memoryStore } from 'mcp-valise/store';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { type Hosts, KINDS, type Kind, openHosts, setting, stateOf } from './hosts.ts';

const SHOP = 'https://shop.example.com/mcp';
const info = { name: 'continuity', version: '1.0.0' };

let hosts: Hosts;
let store: Store;
const opened: { valise: ClientValise; client: ClientV2 }[] = [];
beforeEach(async () => {
  hosts = await openHosts();
  store = memoryStore();
});
afterEach(async () => {
  vi.useRealTimers();
  await end();
  await hosts.close();
});

/** Every process of the host ends. */
async function end(): Promise<void> {
  for (const { client, valise } of opened.splice(0)) {
    await client.close();
    await valise.close();
  }
}

function makeClient({ major, era }: Kind, mode?: 'auto'): ClientV2 {
  if (major === 'v1') return new ClientV1(info) as unknown as ClientV2;
  const negotiation = mode ?? (era === 'modern' ? { pin: '2026-07-28' } : 'legacy');
  return new ClientV2(info, { versionNegotiation: { mode: negotiation } });
}

describe.each(KINDS)('a $kind client on a server without sessions', (kind) => {
  const introduction = kind.era === 'modern' ? 'server/discover' : 'initialize';

  async function start({
    jarLifetime,
    url = SHOP,
  }: {
    jarLifetime?: 'kept';
    url?: string;
  } = {}): Promise<ClientV2> {
    const valise = await openValise({ store });
    const client = makeClient(kind);
    opened.push({ valise, client });
    await valise.connect(client, url, { fetch: hosts.fetch, ...(jarLifetime && { jarLifetime }) });
    return client;
  }

  it('[C-03][C-07] A client asks once who the server is, and knows it after a restart', async () => {
    const one = await start();
    await one.callTool({ name: 'a' });
    expect(hosts.seen.map(({ method }) => method)).toEqual([introduction, 'tools/call']);
    await end();
    hosts.seen.length = 0;
    const two = await start();
    expect(two.getServerCapabilities()).toMatchObject({ tools: {}, prompts: {} });
    expect(two.getServerVersion()).toEqual({ name: 'scripted', version: '1.0.0' });
    await two.listTools();
    await two.callTool({ name: 'a' });
    expect(hosts.seen.map(({ method }) => method)).toEqual(['tools/list', 'tools/call']);
  });

  it('A client asks a server without sessions again after a day, because nothing else tells that it has changed', async () => {
    await start();
    await end();
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 25 * 60 * 60 * 1000 });
    hosts.seen.length = 0;
    await start();
    expect(hosts.seen.map(({ method }) => method)).toEqual([introduction]);
  });

  it('Session-scope state ends with the connection by default', async () => {
    hosts.respond = ({ method }) =>
      method === 'tools/call' ? setting(kind.era, { session: { cart: 1 } }) : {};
    await (await start()).callTool({ name: 'a' });
    await end();
    await (await start()).callTool({ name: 'a' });
    expect(stateOf(hosts.last('tools/call').meta)).toEqual({});
  });

  it("With jarLifetime: 'kept', the next process gets the session-scope state until it is cleared", async () => {
    hosts.respond = ({ method, params }) =>
      method === 'tools/call' ? setting(kind.era, { session: { [String(params['name'])]: 1 } }) : {};
    await (await start({ jarLifetime: 'kept' })).callTool({ name: 'a' });
    await end();
    const two = await start({ jarLifetime: 'kept' });
    await two.callTool({ name: 'b' });
    expect(stateOf(hosts.last('tools/call').meta)).toEqual({ session: { a: 1 } });
    await (await start({ jarLifetime: 'kept', url: 'https://shop.example.com/other' })).callTool({
      name: 'c',
    });
    expect(stateOf(hosts.last('tools/call').meta)).toEqual({});
    await (await start()).callTool({ name: 'd' });
    expect(stateOf(hosts.last('tools/call').meta)).toEqual({});
    await opened[0]?.valise.jar.clear({ server: 'shop.example.com', scope: 'session' });
    await end();
    await (await start({ jarLifetime: 'kept' })).callTool({ name: 'e' });
    expect(stateOf(hosts.last('tools/call').meta)).toEqual({});
  });
});

describe.each(KINDS)('session-scope state that a $kind client stores for a target', (kind) => {
  it.each([SHOP, 'http://127.0.0.1:80/mcp'])(
    '[J-10] logout() from %s deletes the stored session-scope state, even without the development switch',
    async (url) => {
      hosts.respond = ({ method }) =>
        method === 'tools/call' ? setting(kind.era, { session: { cart: 1 } }) : {};
      const valise = await openValise({ store, allowLocal: true });
      const client = makeClient(kind);
      opened.push({ valise, client });
      await valise.connect(client, url, { fetch: hosts.fetch, jarLifetime: 'kept' });
      await client.callTool({ name: 'a' });
      await end();
      expect((await store.list('jar/')).keys).toHaveLength(1);
      const later = await openValise({ store });
      await later.connections.logout(url);
      await later.close();
      expect((await store.list('jar/')).keys).toEqual([]);
    },
  );
});

describe('a v2 client that speaks both eras', () => {
  const [, , modern] = KINDS;

  async function start(): Promise<ClientV2> {
    const valise = await openValise({ store });
    const client = makeClient(modern, 'auto');
    opened.push({ valise, client });
    await valise.connect(client, SHOP, { fetch: hosts.fetch });
    return client;
  }

  const isLegacy = (yes: boolean) => {
    hosts.respond = ({ method, meta }) =>
      yes && (method === 'server/discover' || 'io.modelcontextprotocol/protocolVersion' in meta)
        ? { error: { code: -32601, message: 'Method not found' } }
        : {};
  };

  it('A client of both eras remembers the era of the server and does not probe again', async () => {
    isLegacy(true);
    await start();
    expect(hosts.seen.map(({ method }) => method)).toEqual(['server/discover', 'initialize']);
    await end();
    hosts.seen.length = 0;
    expect((await start()).getProtocolEra()).toBe('legacy');
    expect(hosts.seen).toEqual([]);
  });

  it('[C-08] A client forgets a version that the server has dropped, and the next connection negotiates', async () => {
    await start();
    await end();
    hosts.respond = ({ meta }) =>
      'io.modelcontextprotocol/protocolVersion' in meta
        ? {
            error: {
              code: -32022,
              message: 'Unsupported protocol version',
              data: { supported: ['2025-11-25'], requested: '2026-07-28' },
            },
          }
        : {};
    const two = await start();
    await expect(two.callTool({ name: 'a' })).rejects.toThrow('Unsupported protocol version');
    await end();
    isLegacy(true);
    const three = await start();
    expect(three.getProtocolEra()).toBe('legacy');
    await three.callTool({ name: 'a' });
  });

  it('[C-08] A client negotiates again if it does not support the stored version', async () => {
    await start();
    await end();
    const [key = ''] = (await store.list('connection/')).keys;
    const kept = (await store.get(key))?.value as { introduction: object };
    await store.put(key, {
      ...kept,
      introduction: { ...kept.introduction, supportedVersions: ['2999-01-01'] } as never,
    });
    hosts.seen.length = 0;
    const two = await start();
    await two.callTool({ name: 'a' });
    expect(hosts.seen.map(({ method }) => method)).toEqual(['server/discover', 'tools/call']);
  });
});

describe("jarLifetime: 'kept' over other transports", () => {
  it("With jarLifetime: 'kept', state is stored over a transport of the host too", async () => {
    const { StreamableHTTPClientTransport } = await import(
      '@modelcontextprotocol/sdk/client/streamableHttp.js'
    );
    hosts.respond = ({ method }) =>
      method === 'tools/call' ? setting('legacy', { session: { cart: 1 } }) : {};
    for (const expected of [{}, { session: { cart: 1 } }]) {
      const valise = await openValise({ store });
      const client = makeClient(KINDS[0]);
      opened.push({ valise, client });
      const transport = new StreamableHTTPClientTransport(new URL(SHOP), { fetch: hosts.fetch });
      await valise.connect(client, transport, { jarLifetime: 'kept' });
      await client.callTool({ name: 'a' });
      expect(stateOf(hosts.last('tools/call').meta)).toEqual(expected);
      await end();
    }
  });
});
