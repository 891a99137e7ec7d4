import { type ClientEvents, type ClientValise, openValise, type Store } from 'mcp-valise/client';
import { createSealer, generateKey, parseKeys } from 'mcp-valise/seal';
import { memoryStore } from 'mcp-valise/store';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { connect, type Hosts, KINDS, openHosts, setting, stateOf } from './hosts.ts';

let hosts: Hosts;
let store: Store;
let valise: ClientValise;
let refused: ClientEvents['refused'][];
beforeEach(async () => {
  hosts = await openHosts();
  store = memoryStore();
  await open();
});
afterEach(async () => {
  await valise.close();
  await hosts.close();
});

async function open(): Promise<void> {
  valise = await openValise({ store });
  refused = [];
  valise.on('refused', (event) => refused.push(event));
}

/** Calls a server, which sets this; what it was sent. */
async function call(url: string, kind: (typeof KINDS)[number], state: object, attributes?: object) {
  const client = await connect(valise, hosts, url, kind);
  hosts.respond = ({ method }) => (method === 'tools/call' ? setting(kind.era, state, attributes) : {});
  await client.callTool({ name: 'x' });
  const sent = stateOf(hosts.last('tools/call').meta);
  hosts.respond = () => ({});
  await client.close();
  return sent;
}

describe.each(KINDS)('state that a $kind client received over https', (kind) => {
  const SAFE = 'https://shop.example.com/mcp';
  const OPEN = 'http://shop.example.com/mcp';

  it('[J-31] State set over https is not sent over http, even by a later process; state set over http is sent over both', async () => {
    await call(
      SAFE,
      kind,
      { server: { secret: 'of https', scoped: 1 } },
      { server: { scoped: { 'method-scope': 'tools' } } },
    );
    await call(OPEN, kind, { server: { open: 'of http' } });
    expect(await call(OPEN, kind, {})).toEqual({ server: { open: 'of http' } });
    await valise.close();
    await open();
    expect(await call(OPEN, kind, {})).toEqual({ server: { open: 'of http' } });
    expect(await call(SAFE, kind, {})).toEqual({
      server: { secret: 'of https', scoped: 1, open: 'of http' },
    });
    expect(
      JSON.stringify(hosts.seen.filter(({ method }) => method === 'initialize').slice(1, 2)),
    ).not.toContain('of https');
  });

  it('[J-31] State set over https is neither replaced nor removed over http', async () => {
    await call(SAFE, kind, { server: { secret: 'of https' } });
    await call(OPEN, kind, { server: { secret: 'forged' } });
    await call(OPEN, kind, { server: { secret: null } });
    expect(refused).toMatchObject([
      { key: 'secret', reason: 'insecure' },
      { key: 'secret', reason: 'insecure' },
    ]);
    expect(await call(SAFE, kind, {})).toEqual({ server: { secret: 'of https' } });
  });
});

describe.each(KINDS)('a key that one server of a domain has sealed, with a $kind client', (kind) => {
  const OWNER = 'https://a.example.com/mcp';
  const SIBLING = 'https://b.example.com/mcp';
  const BELOW = 'https://c.b.example.com/mcp';
  const sealer = createSealer({ keys: parseKeys(generateKey()), audience: 'shop' });
  const seal = (value: number): string => sealer.seal(value, { purpose: 'state' } as never);
  const wide = (scope = 'example.com') => ({ server: { profile: { 'server-scope': scope } } });

  it('[J-20] Another server of the domain can neither remove a sealed entry nor replace it with a plain value', async () => {
    const token = seal(1);
    await call(OWNER, kind, { server: { profile: token } }, wide());
    expect(await call(SIBLING, kind, { server: { profile: { role: 'admin' } } }, wide())).toEqual({
      server: { profile: token },
    });
    await call(SIBLING, kind, { server: { profile: null } });
    await call(SIBLING, kind, { server: { profile: null } }, wide());
    await call(BELOW, kind, { server: { profile: 'plain' } }, wide('b.example.com'));
    expect(refused.map(({ key, reason }) => `${key} ${reason}`)).toEqual(Array(4).fill('profile sibling'));
    expect(await call(OWNER, kind, {})).toEqual({ server: { profile: token } });
    expect(await call(SIBLING, kind, {})).toEqual({ server: { profile: token } });
  });

  it('[J-20] A sealed value replaces a sealed entry, and its own server can remove it', async () => {
    await call(OWNER, kind, { server: { profile: seal(1) } }, wide());
    const other = seal(2);
    await call(SIBLING, kind, { server: { profile: other } }, wide());
    expect(await call(OWNER, kind, {})).toEqual({ server: { profile: other } });
    await call(SIBLING, kind, { server: { profile: null } });
    expect(await call(OWNER, kind, {})).toEqual({});
    expect(refused).toEqual([]);
  });

  it('[J-20] A sealed entry of the domain does not prevent another server from setting a plain value for itself', async () => {
    const token = seal(1);
    await call(OWNER, kind, { server: { profile: token } }, wide());
    await call(SIBLING, kind, { server: { profile: 'mine' } });
    expect(await call(SIBLING, kind, {})).toEqual({ server: { profile: 'mine' } });
    expect(await call(OWNER, kind, {})).toEqual({ server: { profile: token } });
  });
});
