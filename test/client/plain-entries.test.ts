import { openValise, type Store } from 'mcp-valise/client';
import { generateKey } from 'mcp-valise/seal';
import { memoryStore } from 'mcp-valise/store';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { keyOf, prefixOf } from '../../src/client/identity/target.ts';
import { sha256 } from '../../src/core/sha256.ts';
import { connect, type Hosts, openHosts, setting } from './hosts.ts';

const SHOP = 'https://shop.example.com/mcp';
const NEWS = 'https://news.example.org/mcp';
const keys = generateKey();

let hosts: Hosts;
let inner: Store;
beforeEach(async () => {
  hosts = await openHosts();
  inner = memoryStore();
  hosts.respond = () => setting('legacy', { server: { theme: 'dark' } });
  const valise = await openValise({ store: inner, keys });
  for (const url of [SHOP, NEWS]) {
    const client = await connect(valise, hosts, url);
    await client.callTool({ name: 'any', arguments: {} });
    await client.close();
  }
  await valise.close();
});
afterEach(() => hosts.close());

/** What a process without keys does that was left running: it writes over the entries that start so. */
async function overwrite(prefix: string): Promise<string[]> {
  const { keys: names } = await inner.list(prefix);
  for (const name of names) await inner.put(name, { planted: true });
  return [...names];
}

async function open(store: Store = inner) {
  const valise = await openValise({ store, keys });
  const warnings: string[] = [];
  valise.on('warning', ({ what, next }) => warnings.push(`${what} ${next}`));
  return { valise, warnings };
}

const told = () => new Promise((resolve) => setImmediate(resolve));

describe('an entry that was written without keys into a sealed store', () => {
  it('A plain entry in a sealed store is reported once by its name, and the others stay usable', async () => {
    const [name] = (await inner.list('jar/')).keys as string[];
    await inner.put(name as string, { planted: true });
    const { valise, warnings } = await open();
    expect(valise.jar.list().map(({ key }) => key)).toEqual(['theme']);
    await valise.jar.refresh();
    await told();
    expect(warnings).toEqual([expect.stringContaining(`"${name}" was written without keys`)]);
    expect(warnings[0]).toContain('valise keys seal --drop-plain');
    await valise.close();
  });

  it('Lists of connections, sessions and pending questions skip a plain entry in a sealed store', async () => {
    const planted = [
      `${prefixOf('connection', '')}planted`,
      `${prefixOf('credentials', '')}planted`,
      `kept-sessions/${sha256('')}/planted`,
      `rounds/pending/${sha256('').slice(0, 16)}/planted`,
    ];
    for (const name of planted) await inner.put(name, { planted: true });
    const { valise, warnings } = await open();
    expect(await valise.connections.list()).toEqual([]);
    expect(await valise.sessions.kept()).toEqual([]);
    expect(await valise.pending.list()).toEqual([]);
    await told();
    expect(warnings.map((text) => /^The entry "(.*)" was/.exec(text)?.[1])).toEqual(planted);
    await valise.close();
  });

  it('Forgetting a connection deletes its plain entry', async () => {
    const name = keyOf('credentials', { target: SHOP, principal: '' });
    await inner.put(name, { planted: true });
    const { valise } = await open();
    expect(await valise.connections.logout(SHOP)).toBe(true);
    expect(await inner.get(name)).toBeUndefined();
    await valise.close();
  });

  it('A plain entry in a sealed store is never used, and new state replaces it', async () => {
    await overwrite('jar/');
    const { valise } = await open();
    expect(valise.jar.list()).toEqual([]);
    const client = await connect(valise, hosts, SHOP);
    await client.callTool({ name: 'any', arguments: {} });
    await client.close();
    await valise.close();
    const { valise: again } = await open();
    expect(again.jar.list().map(({ server, key }) => [server, key])).toEqual([['shop.example.com', 'theme']]);
    await again.close();
  });

  it('Clearing a server or everything deletes a plain entry', async () => {
    await overwrite('jar/');
    const { valise } = await open();
    expect(await valise.jar.clear({ server: SHOP, scope: 'session' })).toBe(0);
    expect(await valise.jar.clear({ server: SHOP, key: 'theme' })).toBe(0);
    expect(await valise.jar.clear({ server: SHOP })).toBe(1);
    expect((await inner.list('jar/')).keys).toHaveLength(1);
    expect(await valise.jar.clear()).toBe(1);
    expect((await inner.list('jar/')).keys).toEqual([]);
    await valise.close();
  });
});
