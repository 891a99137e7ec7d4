import { asClientStateStore, openValise } from 'mcp-valise/client';
import { type Json, memoryStore, type Store } from 'mcp-valise/store';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { connect, type Hosts, openHosts, setting } from './hosts.ts';

type JsonObject = Record<string, Json>;

const SHOP = 'https://shop.example.com/mcp';

let hosts: Hosts;
let store: Store;
beforeEach(async () => {
  hosts = await openHosts();
  store = memoryStore();
  hosts.respond = () => setting('legacy', { server: { theme: 'dark' } });
  const valise = await openValise({ store, insecurePlaintext: true });
  const client = await connect(valise, hosts, SHOP);
  await client.callTool({ name: 'any', arguments: {} });
  await client.close();
  await valise.close();
});
afterEach(() => hosts.close());

async function rewrite(prefix: string, change: (value: JsonObject) => Json): Promise<[string, Json]> {
  const [key] = (await store.list(prefix)).keys as [string];
  const value = change((await store.get(key))?.value as JsonObject);
  await store.put(key, value);
  return [key, value];
}

describe('records of a later release in the store of a client', () => {
  it('A jar record of a later release is left unchanged with a warning, and the call continues', async () => {
    const [key, value] = await rewrite('jar/', (record) => ({
      ...record,
      format: 99,
      items: 'of another shape',
    }));
    const valise = await openValise({ store });
    const warnings: string[] = [];
    valise.on('warning', ({ what }) => warnings.push(what));
    const client = await connect(valise, hosts, SHOP);
    hosts.respond = () => setting('legacy', { server: { theme: 'light' } });
    await client.callTool({ name: 'any', arguments: {} });
    expect(warnings.join('\n')).toContain('a jar record of version 99');
    await client.close();
    await expect(valise.close()).rejects.toMatchObject({ code: 'not-saved' });
    expect((await store.get(key))?.value).toEqual(value);
  });

  it.each([
    ['credentials record', 'credentials/'],
    ['connection record', 'connection/'],
  ])('A %s of a later release is left unchanged with a warning', async (kind, prefix) => {
    const state = asClientStateStore(store, SHOP);
    await state.setAccessToken({ accessToken: 'old' });
    await state.setSessionId('one');
    const [key, value] = await rewrite(prefix, (record) => ({ ...record, format: 3 }));
    const writing =
      prefix === 'credentials/' ? state.setAccessToken({ accessToken: 'new' }) : state.setSessionId('two');
    await expect(writing).rejects.toMatchObject({
      code: 'store-newer',
      outcome: 'not-done',
      message: expect.stringContaining(
        `a ${kind} of version 3, and this release of Valise knows versions up to 1`,
      ),
    });
    expect((await store.get(key))?.value).toEqual(value);
  });
});

it('A jar record without a version has version 1', async () => {
  await rewrite('jar/', ({ format: _, ...record }) => record);
  const valise = await openValise({ store });
  expect(valise.jar.list().map(({ key }) => key)).toEqual(['theme']);
  await valise.close();
});
