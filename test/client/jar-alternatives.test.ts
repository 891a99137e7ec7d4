import { type ClientValise, openValise } from 'mcp-valise/client';
import { memoryStore } from 'mcp-valise/store';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { connect, type Hosts, KINDS, openHosts, setting, stateOf } from './hosts.ts';
import { rawServer, result } from './rounds-server.ts';

const SHOP = 'https://shop.example.com/mcp';

describe.each(KINDS)('the alternatives that 000 rejects, with a $kind client', (kind) => {
  let hosts: Hosts;
  let valise: ClientValise;
  let headers: string[];
  beforeEach(async () => {
    hosts = await openHosts();
    valise = await openValise({ store: memoryStore() });
    headers = [];
    const { fetch } = hosts;
    hosts.fetch = async (url, init) => {
      headers.push(JSON.stringify([...new Headers(init?.headers)]));
      const response = await fetch(url, init);
      const added = new Headers(response.headers);
      added.set('mcp-state', '{"session":{"other":"by header"}}');
      added.set('set-cookie', 'other=by-header');
      return new Response(response.body, { status: response.status, headers: added });
    };
  });
  afterEach(async () => {
    await valise.close();
    await hosts.close();
  });

  /** Calls a server twice, which answers with this `_meta`, and with state as it is specified; what it was sent. */
  const sentTo = async (_meta: object) => {
    const client = await connect(valise, hosts, SHOP, kind);
    const usual = setting(kind.era, { session: { cart: 'as specified' }, server: { visits: 1 } });
    hosts.respond = ({ method }) => (method === 'tools/call' ? { _meta: { ..._meta, ...usual._meta } } : {});
    await client.callTool({ name: 'one' });
    await client.callTool({ name: 'two' });
    await client.close();
    return hosts.last('tools/call').meta;
  };

  it('[J-27] A client neither reads nor writes one key with an attribute for the scope', async () => {
    const attributes = { scope: 'server' };
    const sent = await sentTo({
      'modelcontextprotocol.io/state': { other: { value: 'one key', attributes } },
    });
    expect(sent).not.toHaveProperty(['modelcontextprotocol.io/state']);
    expect(JSON.stringify(sent)).not.toContain('one key');
    expect(stateOf(sent)).toEqual({ session: { cart: 'as specified' }, server: { visits: 1 } });
  });

  it('[J-28] A client neither reads nor writes _meta.state', async () => {
    const sent = await sentTo({ state: { other: 'bare', session: { other: 'bare' } } });
    expect(sent).not.toHaveProperty('state');
    expect(JSON.stringify(sent)).not.toContain('bare');
  });

  it('[J-29] A client neither reads nor writes state in an HTTP header', async () => {
    const sent = await sentTo({});
    expect(JSON.stringify(sent)).not.toMatch(/by.header/);
    expect(headers.join('\n')).not.toMatch(/as specified|by.header|mcp-state|"cookie"/i);
  });

  it('[J-30] A client sends no request to get or set state', async () => {
    await sentTo({});
    const usual = ['initialize', 'server/discover', 'tools/call'];
    expect(hosts.seen.map(({ method }) => method).filter((method) => !usual.includes(method))).toEqual([]);
  });
});

it.each(KINDS.filter(({ era }) => era === 'legacy'))(
  '[J-30] A $kind client answers requests to get or set state with method not found',
  async (kind) => {
    const asked = ['state/get', 'state/set'].map((method, at) =>
      JSON.stringify({ jsonrpc: '2.0', id: `ask-${at}`, method, params: { key: 'cart', value: 'forced' } }),
    );
    const server = await rawServer(({ message }) =>
      message.method === 'tools/call' ? [...asked, result(message.id, 'done')] : undefined,
    );
    const valise = await openValise({ store: memoryStore(), allowLocal: true });
    const client = await connect(valise, { fetch } as Hosts, server.url.href, kind);
    await client.callTool({ name: 'one' });
    await expect
      .poll(() => server.said.filter(({ message }) => message.error?.code === -32601).length)
      .toBe(2);
    expect(valise.jar.list()).toEqual([]);
    await client.close();
    await valise.close();
    await server.close();
  },
);
