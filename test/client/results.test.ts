import { type ClientValise, openValise } from 'mcp-valise/client';
import { DRAFTS, NAMES } from 'mcp-valise/internal';
import { memoryStore } from 'mcp-valise/store';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { connect, type Hosts, KINDS, openHosts, stateOf } from './hosts.ts';
import { openSessionHost, SPELLED, saying } from './sessions-host.ts';

const SHOP = 'https://shop.example.com/mcp';
const OTHER = { 'vendor.example/trace': 'abc' };
const MINE = /state|session|dev\.valise/;

let valise: ClientValise;
beforeEach(async () => {
  valise = await openValise({ store: memoryStore() });
});
afterEach(() => valise.close());

/** The keys of a result's `_meta` that belong to Valise. */
function left(result: { readonly _meta?: object | undefined }): string[] {
  return Object.keys(result._meta ?? {}).filter((key) => MINE.test(key));
}

describe.each(KINDS)('the results of a client of kind $kind', (kind) => {
  let hosts: Hosts;
  beforeEach(async () => {
    hosts = await openHosts();
  });
  afterEach(() => hosts.close());

  it.each([
    ['our own', { [NAMES.modern.state.key]: { session: { cart: 'v1.a' }, server: { size: 'v1.b' } } }],
    [
      "the draft's",
      {
        [NAMES.legacy.state.session]: { cart: 'v1.a' },
        [NAMES.legacy.state.server]: { size: 'v1.b' },
      },
    ],
    [
      "an earlier draft's",
      { [DRAFTS.state.session]: { cart: 'v1.a' }, [DRAFTS.state.server]: { size: 'v1.b' } },
    ],
  ])('Results do not contain the state that the jar took, in %s spelling', async (_, state) => {
    const attributes = { [NAMES.modern.state.attributes]: { server: { size: { 'max-age': 60 } } } };
    hosts.respond = ({ method }) =>
      method === 'tools/call' ? { _meta: { ...state, ...attributes, ...OTHER } } : {};
    const client = await connect(valise, hosts, SHOP, kind);
    const result = await client.callTool({ name: 'add' });
    expect(left(result)).toEqual([]);
    expect(result._meta).toMatchObject(OTHER);
    await client.callTool({ name: 'add' });
    expect(stateOf(hosts.last().meta)).toMatchObject({ session: { cart: 'v1.a' }, server: { size: 'v1.b' } });
    await client.close();
  });

  it('Results contain the state of a server for which no state is stored', async () => {
    const _meta = { [NAMES.legacy.state.server]: { size: 'L' } };
    hosts.respond = ({ method }) => (method === 'tools/call' ? { _meta } : {});
    const client = await connect(valise, hosts, 'https://192.0.2.1/mcp', kind);
    expect((await client.callTool({ name: 'add' }))._meta).toMatchObject(_meta);
    await client.close();
  });
});

describe.each(SPELLED)('the results of a session, of a client of kind $kind', (kind) => {
  it('Results omit the stored session state, and contain the state of sessions that Valise does not have', async () => {
    const host = await openSessionHost(kind);
    const client = await host.connect(valise, SHOP);
    const session = await valise.sessions(client).create({ label: 'mine' });
    host.answer = () => {
      const { _meta } = saying(kind.spelling, { sessionId: session.id, state: 'v1.sealed' }, 1);
      return { content: [], _meta: { ..._meta, ...OTHER } };
    };
    const inside = await session.run(() => client.callTool({ name: 'append' }));
    expect(left(inside)).toEqual([]);
    expect(inside._meta).toMatchObject(OTHER);
    await session.run(() => client.callTool({ name: 'append' }));
    expect(JSON.stringify(host.last('tools/call').meta)).toContain('v1.sealed');
    const outside = await client.callTool({ name: 'append' });
    expect(JSON.stringify(outside._meta)).toContain('v1.sealed');
    await client.close();
    await host.close();
  });
});
