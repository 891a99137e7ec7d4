import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { generateKey } from '../../src/seal/index.ts';
import { fileStore, openStore, type Store, sealedStore, sealInPlace } from '../../src/store/index.ts';
import { sqliteStore } from '../../src/store/sqlite/store.ts';
import { service, uniqueName } from '../services.ts';
import { temporaryFolder } from './places.ts';

const keys = generateKey();
const sealed = { code: 'store-wrong-key' };
let folder: string;
let remove: () => void;
beforeEach(() => {
  ({ folder, remove } = temporaryFolder());
});
afterEach(() => {
  vi.restoreAllMocks();
  remove();
});

/** Lets the clock that decides on another look go on by two seconds. */
function later(): void {
  const now = performance.now();
  vi.spyOn(performance, 'now').mockImplementation(() => now + 2000);
}

const [redis, postgres] = [await service('redis'), await service('postgres')];
const prefix = `${uniqueName()}/`;

describe.each<[string, () => string | undefined, (url: string) => Promise<Store>]>([
  ['openStore file:', () => `file:${folder}/state`, (url) => openStore(url)],
  ['openStore sqlite:', () => `sqlite:${folder}/state`, (url) => openStore(url)],
  ['fileStore', () => `file:${folder}/state`, async (url) => fileStore(url.slice(5))],
  ['sqliteStore', () => `sqlite:${folder}/state`, async (url) => sqliteStore(url.slice(7))],
  ['openStore redis:', () => redis, (url) => openStore(url, { prefix, timeout: '20s' })],
  ['openStore postgres:', () => postgres, (url) => openStore(url, { prefix, timeout: '20s' })],
])('a store that is opened without keys by %s and then sealed by another process', (kind, where, open) => {
  const isRemote = kind.includes('redis') || kind.includes('postgres');
  const options = isRemote ? { keys, prefix, timeout: '20s' as const } : { keys };
  const skip = isRemote && where() === undefined;

  it.skipIf(skip)(
    'A store without keys returns no sealed text as a value, and accepts no writes from then on',
    async () => {
      const url = where() as string;
      const plain = await open(url);
      await plain.put('a', { n: 1 });
      const { version } = (await plain.get('a'))!;
      await sealInPlace(url, options);
      expect(await plain.put('a', { n: 2 }, { ifVersion: version })).toBeUndefined();
      await expect(plain.get('a')).rejects.toMatchObject(sealed);
      await expect(plain.put('a', { n: 3 })).rejects.toMatchObject(sealed);
      await expect(plain.put('b', 1)).rejects.toMatchObject(sealed);
      await expect(plain.delete('a')).rejects.toMatchObject(sealed);
      await expect(plain.list('')).rejects.toMatchObject(sealed);
      await plain.close();
      const again = await openStore(url, options);
      expect((await again.get('a'))?.value).toEqual({ n: 1 });
      expect((await again.list('')).keys).toEqual(['a']);
      await again.delete('a');
      await again.close();
    },
  );
});

describe('a store opened without keys', () => {
  it('A store without keys checks before a write whether it has been sealed, at most once a second', async () => {
    const url = `sqlite:${folder}/state`;
    const plain = await openStore(url);
    await plain.put('a', 1);
    await sealInPlace(url, { keys });
    later();
    await expect(plain.put('b', 1)).rejects.toMatchObject(sealed);
    await expect(plain.delete('a')).rejects.toMatchObject(sealed);
    await plain.close();
  });

  it('A store without keys returns no sealed text when entries are read page by page', async () => {
    const url = `sqlite:${folder}/state`;
    const plain = await openStore(url);
    await plain.put('a', { n: 1 });
    expect((await plain.entries?.(''))?.entries).toMatchObject([['a', { value: { n: 1 } }]]);
    await sealInPlace(url, { keys });
    await expect(plain.entries?.('')).rejects.toMatchObject(sealed);
    await expect(plain.entries?.('')).rejects.toMatchObject(sealed);
    await plain.close();
  });

  it('A store without keys keeps the order and the values of writes while it checks', async () => {
    const plain = await openStore(`file:${folder}/state`);
    later();
    const value = { n: 1 };
    const all = [plain.put('a', value), plain.put('b', 'first'), plain.put('b', 'second'), plain.get('a')];
    value.n = 2;
    await Promise.all(all);
    expect((await plain.get('a'))?.value).toEqual({ n: 1 });
    expect((await plain.get('b'))?.value).toBe('second');
    await plain.close();
  });

  it('A store without keys may contain values that look sealed', async () => {
    const plain = await openStore(`sqlite:${folder}/state`);
    await plain.put('a', 'v1.is-the-first-version');
    expect((await plain.get('a'))?.value).toBe('v1.is-the-first-version');
    await plain.close();
  });

  it('A store without keys can get keys in the same process', async () => {
    const plain = await openStore(`sqlite:${folder}/state`);
    await plain.put('a', 1);
    await sealInPlace(plain, { keys });
    const store = sealedStore(plain, keys);
    expect((await store.get('a'))?.value).toBe(1);
    await store.close();
  });
});
