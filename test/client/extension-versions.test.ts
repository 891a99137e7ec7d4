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

  it('are announced by the client', async () => {
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
  ])('are agreed on with a server that announces $what: the jar is kept and sent', async ({ settings }) => {
    if (settings) announce(settings);
    hosts.respond = ({ method }) => (method === 'tools/call' ? setting(spelling, STATE) : {});
    const client = await connect(valise, hosts, SHOP, kind);
    await client.callTool({ name: 'add' });
    await client.callTool({ name: 'add' });
    expect(brought('tools/call')).toBe(true);
  });

  it('of a server that has other major ones alone: nothing is sent, nothing is kept, and sessions say why', async () => {
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

  it('of a server that was replaced by an incompatible one: the entries of the jar stay', async () => {
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
});
