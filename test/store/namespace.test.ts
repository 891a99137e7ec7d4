import { storeContract } from 'mcp-valise/testing';
import { describe, expect, it } from 'vitest';
import { generateKey } from '../../src/seal/index.ts';
import { memoryStore, namespaced, openStore } from '../../src/store/index.ts';
import { temporaryFolder } from './places.ts';

storeContract(
  () => ({
    open: async () => {
      const store = memoryStore();
      for (const key of ['app', 'app.', 'app0', 'apq']) await store.put(key, 'beside');
      return namespaced(store, 'app/');
    },
  }),
  { describe, it },
  { name: 'a namespace', reopens: false, processes: false, scale: 0.1, maxKeyBytes: 1020 },
);

describe('namespaces of one store', () => {
  it('Namespaces do not see each other', async () => {
    const store = memoryStore();
    const [one, two] = [namespaced(store, 'one/'), namespaced(store, 'two/')];
    await one.put('a', 1);
    await two.put('a', 2);
    expect((await one.get('a'))?.value).toBe(1);
    expect(await one.list('')).toEqual({ keys: ['a'] });
    expect(await one.delete('a')).toBe(true);
    expect((await two.get('a'))?.value).toBe(2);
    expect(await one.lease('job', 60)).toBeDefined();
    expect(await two.lease('job', 60)).toBeDefined();
    expect((await store.list('')).keys).toEqual(['two/a']);
  });

  it('Namespaces read a page of entries at once if the store does, and never those of another', async () => {
    const { folder, remove } = temporaryFolder();
    const store = await openStore(`sqlite:${folder}/state.db`);
    for (const key of ['one/a', 'one/b', 'one/c', 'two/a']) await store.put(key, key);
    const page = await namespaced(store, 'one/').entries!('', { limit: 2 });
    expect(page.entries.map(([key, { value }]) => [key, value])).toEqual([
      ['a', 'one/a'],
      ['b', 'one/b'],
    ]);
    const rest = await namespaced(store, 'one/').entries!('', { cursor: page.cursor! });
    expect(rest.entries.map(([key]) => key)).toEqual(['c']);
    await store.close();
    remove();
  });

  it('The prefix option opens namespaces, and each may have its own keys', async () => {
    const { folder, remove } = temporaryFolder();
    const url = `sqlite:${folder}/state.db`;
    const [keysOne, keysTwo] = [generateKey(), generateKey()];
    const one = await openStore(url, { prefix: 'one/', keys: keysOne });
    const two = await openStore(url, { prefix: 'two/', keys: keysTwo });
    const plain = await openStore(url, { prefix: 'plain/' });
    await one.put('a', 1);
    await two.put('a', 2);
    await plain.put('a', 3);
    expect((await one.get('a'))?.value).toBe(1);
    expect((await two.get('a'))?.value).toBe(2);
    expect((await plain.list('')).keys).toEqual(['a']);
    await Promise.all([one.close(), two.close(), plain.close()]);
    await expect(openStore(url, { prefix: 'one/', keys: keysTwo })).rejects.toMatchObject({
      code: 'store-wrong-key',
    });
    await expect(openStore(url, { prefix: 'one/' })).rejects.toMatchObject({ code: 'store-wrong-key' });
    remove();
  });
});
