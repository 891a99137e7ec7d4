import { type ClientValise, openValise, type Store } from 'mcp-valise/client';
import { memoryStore } from 'mcp-valise/store';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { connect, type Hosts, KINDS, openHosts, setting } from './hosts.ts';

const SHOP = 'https://shop.example.com/mcp';
const OURS = ['dev.valise/state'];
const DRAFTS = ['modelcontextprotocol.io/state/server', 'modelcontextprotocol.io/state/session'];
const STATE = { session: { cart: ['tomato'] }, server: { language: 'en' } };
const [, legacy, modern] = KINDS;

let hosts: Hosts;
let store: Store;
const opened: ClientValise[] = [];
beforeEach(async () => {
  hosts = await openHosts();
  store = memoryStore();
});
afterEach(async () => {
  for (const valise of opened.splice(0)) await valise.close();
  await hosts.close();
});

/** Another process of the same user, as far as the store is concerned. */
async function start(kind: (typeof KINDS)[number]) {
  const valise = await openValise({ store });
  opened.push(valise);
  return connect(valise, hosts, SHOP, kind);
}

/** The names of state with which a request went out. */
function sent(method: string): string[] {
  return Object.keys(hosts.last(method).meta)
    .filter((key) => OURS.includes(key) || DRAFTS.includes(key))
    .sort();
}

describe('the names of the jar on the wire', () => {
  it.each([
    { at: 'that uses the drafts’ and announces nothing', kind: modern, says: 'legacy', names: DRAFTS },
    { at: 'that uses ours and announces nothing', kind: modern, says: 'modern', names: OURS },
    {
      at: 'that uses the drafts’ and announces ours',
      kind: modern,
      says: 'legacy',
      ours: true,
      names: DRAFTS,
    },
    { at: 'that uses ours and announces them', kind: modern, says: 'modern', ours: true, names: OURS },
    { at: 'that uses the drafts’', kind: legacy, says: 'legacy', names: DRAFTS },
    { at: 'that uses ours', kind: legacy, says: 'modern', names: OURS },
  ] as const)(
    '[S-24] [J-08] The jar uses the names of a server $at ($kind.kind)',
    async ({ kind, says, names, ...more }) => {
      if ('ours' in more)
        hosts.capabilities = { ...hosts.capabilities, extensions: { 'dev.valise/state': {} } };
      hosts.respond = ({ method }) => (method === 'tools/call' ? setting(says, STATE) : {});
      const client = await start(kind);
      await client.callTool({ name: 'add' });
      await client.callTool({ name: 'add' });
      expect(sent('tools/call')).toEqual(names);
      await client.listTools();
      expect(sent('tools/list')).toEqual(names);
    },
  );

  it('[S-24] [J-11] The jar still uses the names of the drafts after a restart, with a server that names no Valise extension', async () => {
    hosts.respond = ({ method }) => (method === 'tools/call' ? setting('legacy', STATE) : {});
    const first = await start(modern);
    await first.callTool({ name: 'add' });
    await first.close();
    const second = await start(modern);
    await second.listTools();
    expect(hosts.last('tools/list').meta).toMatchObject({
      'modelcontextprotocol.io/state/server': { language: 'en' },
    });
  });
});
