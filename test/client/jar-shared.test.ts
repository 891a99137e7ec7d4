import { type ClientValise, openValise, type Store } from 'mcp-valise/client';
import { memoryStore } from 'mcp-valise/store';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { connect, type Hosts, openHosts, setting, stateOf } from './hosts.ts';

const SHOP = 'https://shop.example.com/mcp';

let hosts: Hosts;
let store: Store;
beforeEach(async () => {
  hosts = await openHosts();
  // The server sets what the arguments of a call say.
  hosts.respond = ({ method, params }) =>
    method === 'tools/call' ? setting('legacy', { server: params['arguments'] as object }) : {};
  store = memoryStore();
});
afterEach(() => hosts.close());

/** One of several clients on one jar, each with what it knows of it. */
async function join(): Promise<{ valise: ClientValise; sets(state: object): Promise<object | undefined> }> {
  const valise = await openValise({ store });
  const client = await connect(valise, hosts, SHOP);
  return {
    valise,
    async sets(state) {
      await client.callTool({ name: 'set', arguments: state as Record<string, unknown> });
      return stateOf(hosts.last('tools/call').meta).server;
    },
  };
}

describe('a jar that several processes share', () => {
  it.each([
    ['nothing else', {}, {}],
    ['something else', { base: 1 }, {}],
    ['something else, which is set again', { base: 1 }, { base: 2 }],
  ])(
    '[J-05] A deletion also applies to a key that only another process knows, beside %s',
    async (_, before, along) => {
      const one = await join();
      await one.sets(before);
      const other = await join();
      await other.sets({ coupon: 'C' });
      await one.sets({ coupon: null, ...along });
      const later = await join();
      expect((await later.sets({})) ?? {}).toEqual({ ...before, ...along });
      expect((await one.sets({})) ?? {}).toEqual({ ...before, ...along });
      await other.valise.jar.refresh();
      expect((await other.sets({})) ?? {}).toEqual({ ...before, ...along });
    },
  );

  it('A key that another process sets after a deletion stays', async () => {
    const one = await join();
    const other = await join();
    await one.sets({ coupon: null });
    await other.sets({ coupon: 'D' });
    expect(await (await join()).sets({})).toEqual({ coupon: 'D' });
  });

  it('The deletion of an unknown key writes nothing', async () => {
    const written: string[] = [];
    const { put, delete: remove } = store;
    store.put = (key, ...rest) => {
      written.push(key);
      return put.call(store, key, ...rest);
    };
    store.delete = (key, ...rest) => {
      written.push(key);
      return remove.call(store, key, ...rest);
    };
    const one = await join();
    await one.sets({ base: 1 });
    written.length = 0;
    await one.sets({ coupon: null });
    await (await join()).sets({ coupon: null });
    expect(written.filter((key) => key.startsWith('jar/'))).toEqual([]);
  });
});
