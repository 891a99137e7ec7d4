import { type ClientValise, openValise } from 'mcp-valise/client';
import { memoryStore } from 'mcp-valise/store';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { connect, type Hosts, KINDS, openHosts, setting } from './hosts.ts';

const SHOP = 'https://shop.example.com/mcp';
const STATE = { session: { cart: ['tomato'] }, server: { language: 'en' } };
const NAMED = ['dev.valise/state', 'modelcontextprotocol.io/state/server'];

let hosts: Hosts;
let valise: ClientValise;
beforeEach(async () => {
  hosts = await openHosts();
  valise = await openValise({ store: memoryStore() });
});
afterEach(async () => {
  await valise.close();
  await hosts.close();
});

/** Servers that announce the jar and sessions with these settings. */
function announce(settings: object): void {
  const extensions = { 'dev.valise/state': settings, 'dev.valise/sessions': settings };
  hosts.capabilities = { tools: {}, sessions: {}, extensions };
}

/** Whether a request brought state. */
const brought = (method: string) => NAMED.some((name) => name in hosts.last(method).meta);

describe.each(KINDS)('extension versions of a client of kind $kind', (kind) => {
  const isModern = kind === KINDS[2];
  const spelling = isModern ? 'modern' : 'legacy';

  it('A client announces its extension versions', async () => {
    announce({ versions: ['1.0.0'] });
    const client = await connect(valise, hosts, SHOP, kind);
    await client.listTools();
    const capabilities = isModern
      ? hosts.last('tools/list').meta['io.modelcontextprotocol/clientCapabilities']
      : hosts.last('initialize').params['capabilities'];
    expect(capabilities).toMatchObject({
      extensions: { 'dev.valise/state': { version: '1.0.0' }, 'dev.valise/sessions': { version: '1.0.0' } },
    });
  });

  it.each([
    { what: 'nothing', settings: undefined },
    { what: 'no version', settings: {} },
    { what: 'the same one', settings: { versions: ['1.0.0'] } },
    { what: 'a newer minor one', settings: { versions: ['1.8.2'] } },
    { what: 'newer major ones besides', settings: { versions: ['1.4.0', '2.3.0'] } },
  ])(
    'A client and a server that announces $what agree on a version, and the jar is stored and sent',
    async ({ settings }) => {
      if (settings) announce(settings);
      hosts.respond = ({ method }) => (method === 'tools/call' ? setting(spelling, STATE) : {});
      const client = await connect(valise, hosts, SHOP, kind);
      await client.callTool({ name: 'add' });
      await client.callTool({ name: 'add' });
      expect(brought('tools/call')).toBe(true);
    },
  );

  it('A client sends and stores nothing for a server that only has other major versions, and session methods say why', async () => {
    announce({ versions: ['2.0.0', '3.1.0'] });
    hosts.respond = ({ method }) => (method === 'tools/call' ? setting(spelling, STATE) : {});
    const client = await connect(valise, hosts, SHOP, kind);
    const result = await client.callTool({ name: 'add' });
    expect(Object.keys(result._meta ?? {}).filter((name) => NAMED.includes(name))).toEqual([]);
    await client.callTool({ name: 'add' });
    expect(brought('tools/call')).toBe(false);
    if (isModern)
      expect(hosts.last('tools/call').meta['io.modelcontextprotocol/clientCapabilities']).not.toHaveProperty([
        'extensions',
        'dev.valise/state',
      ]);
    const requests = hosts.seen.length;
    const refusal = valise.sessions(client).create();
    await expect(refusal).rejects.toMatchObject({ code: 'no-sessions' });
    await expect(refusal).rejects.toThrow('2.0.0, 3.1.0');
    expect(hosts.seen).toHaveLength(requests);
  });

  it('The entries of the jar stay if an incompatible server replaces the previous one', async () => {
    announce({ versions: ['1.0.0'] });
    hosts.respond = ({ method }) => (method === 'tools/call' ? setting(spelling, STATE) : {});
    await (await connect(valise, hosts, SHOP, kind)).callTool({ name: 'add' });
    announce({ versions: ['2.0.0'] });
    const during = await connect(valise, hosts, SHOP, kind);
    await during.callTool({ name: 'add' });
    expect(brought('tools/call')).toBe(false);
    announce({ versions: ['1.0.0'] });
    hosts.respond = () => ({});
    const after = await connect(valise, hosts, SHOP, kind);
    await after.callTool({ name: 'add' });
    expect(JSON.stringify(hosts.last('tools/call').meta)).toContain('"language":"en"');
  });

  it('Jar entries keep their extension version, and an entry of another major version waits for a client that supports it', async () => {
    const store = memoryStore();
    announce({ versions: ['1.0.0'] });
    hosts.respond = ({ method }) => (method === 'tools/call' ? setting(spelling, STATE) : {});
    const first = await openValise({ store });
    await (await connect(first, hosts, SHOP, kind)).callTool({ name: 'add' });
    await first.close();
    // What a client of a later release would have stored: the row's last member has what is not in every entry.
    const [key] = (await store.list('')).keys.filter((each) => each.includes('jar'));
    const stored = (await store.get(key as string))?.value as { items: unknown[][] };
    const item = stored.items[0] as unknown[];
    const rest = (version: string) => ({ ...(item[5] as object), version });
    const later = [
      [...item.slice(0, 5), rest('1.6')],
      ['theirs', 'new', 9, item[3], item[4], rest('2.1')],
    ];
    await store.put(key as string, { ...stored, items: later } as never);
    hosts.respond = ({ method }) =>
      method === 'tools/call' ? setting(spelling, { server: { more: 1 } }) : {};
    const second = await openValise({ store });
    await (await connect(second, hosts, SHOP, kind)).callTool({ name: 'add' });
    const sent = JSON.stringify(hosts.last('tools/call').meta);
    expect(sent).toContain('"language":"en"');
    expect(sent).not.toContain('theirs');
    const { entries } = await second.jar.export();
    await second.close();
    const versions = (entries as readonly { key: string; version?: string }[]).map(({ key, version }) => [
      key,
      version,
    ]);
    expect(versions.sort()).toEqual([
      ['language', '1.6'],
      ['more', undefined],
      ['theirs', '2.1'],
    ]);
    const third = await openValise({ store: memoryStore() });
    await third.jar.import({ version: 1, entries } as never);
    expect((await third.jar.list()).map(({ key, version }) => [key, version]).sort()).toEqual(versions);
    await third.close();
  });
});
