import { readFileSync } from 'node:fs';
import { storeContract } from 'mcp-valise/testing';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { generateKey } from '../../src/seal/index.ts';
import { fileStore, memoryStore, openStore, reseal, type Store, sealedStore } from '../../src/store/index.ts';
import { sqliteStore } from '../../src/store/sqlite/store.ts';
import { temporaryFolder } from './places.ts';

const keys = generateKey();

storeContract(
  () => ({ open: () => sealedStore(memoryStore(), keys) }),
  { describe, it },
  { name: 'sealed memory', reopens: false, processes: false, scale: 0.1 },
);

storeContract(
  () => {
    const { folder, remove } = temporaryFolder();
    return { open: () => sqliteStore(`${folder}/state.db`, { keys }), remove };
  },
  { describe, it },
  { name: 'sealed sqlite', processes: false, scale: 0.1 },
);

describe('a sealed store', () => {
  let folder: string;
  let remove: () => void;
  let inner: Store;
  beforeEach(() => {
    ({ folder, remove } = temporaryFolder());
    inner = memoryStore();
  });
  afterEach(() => remove());

  it('[C-11] A sealed store shows names but no values to a reader of the file', async () => {
    const store = fileStore(`${folder}/mcp-state.json`, { keys });
    await store.put('github', { token: 'gho_verysecret' });
    await store.close();
    const text = readFileSync(`${folder}/mcp-state.json`, 'utf8');
    expect(text).toContain('github');
    expect(text).not.toMatch(/verysecret|token/);
  });

  it('A sealed store notices an entry that was moved to another name', async () => {
    const store = sealedStore(inner, keys);
    await store.put('alice', 'hers');
    await store.put('bob', 'his');
    await inner.put('bob', (await inner.get('alice'))?.value as string);
    await expect(store.get('bob')).rejects.toMatchObject({ code: 'store-corrupt' });
    expect((await store.get('alice'))?.value).toBe('hers');
  });

  it('A sealed store does not restore an entry whose expiry was extended by somebody else', async () => {
    const store = sealedStore(inner, keys);
    vi.useFakeTimers({ toFake: ['Date'] });
    try {
      await store.put('a', 'old', { ttl: 60 });
      const { value } = (await inner.get('a'))!;
      await inner.put('a', value, { ttl: 1e6 });
      expect(await store.get('a')).toMatchObject({ value: 'old' });
      vi.setSystemTime(Date.now() + 3_600_000);
      expect(await inner.get('a')).toMatchObject({ value });
      expect(await store.get('a')).toBeUndefined();
      expect(await store.put('a', 'new', { ttl: 60 })).toEqual(expect.any(String));
      expect(await store.get('a')).toMatchObject({ value: 'new' });
    } finally {
      vi.useRealTimers();
    }
  });

  it('A sealed store notices an entry whose expiry was removed or added', async () => {
    const store = sealedStore(inner, keys);
    await store.put('a', 1, { ttl: 60 });
    await inner.put('a', (await inner.get('a'))?.value as string);
    await expect(store.get('a')).rejects.toMatchObject({ code: 'store-corrupt' });
    await store.put('b', 1);
    await inner.put('b', (await inner.get('b'))?.value as string, { ttl: 60 });
    await expect(store.get('b')).rejects.toMatchObject({ code: 'store-corrupt' });
  });

  it('A sealed store notices an entry from another store with the same keys', async () => {
    const other = memoryStore();
    const [store, second] = [sealedStore(inner, keys, 'one'), sealedStore(other, keys, 'two')];
    await store.put('a', 1);
    await second.put('a', 2);
    await inner.put('a', (await other.get('a'))?.value as string);
    await expect(store.get('a')).rejects.toMatchObject({ code: 'store-corrupt' });
  });

  it('A sealed store notices an entry that was written without the key or changed', async () => {
    const store = sealedStore(inner, keys);
    await store.put('a', 1);
    const token = (await inner.get('a'))?.value as string;
    await inner.put('a', { admin: true });
    await expect(store.get('a')).rejects.toMatchObject({ code: 'store-wrong-key' });
    await inner.put('a', `${token.slice(0, -6)}AAAAAA`);
    await expect(store.get('a')).rejects.toMatchObject({ code: 'store-corrupt' });
  });

  it('A sealed store neither lists nor returns the entry that it reserves for itself', async () => {
    const store = sealedStore(inner, keys);
    await store.put('valise', 1);
    expect((await inner.list('')).keys).toHaveLength(2);
    expect(await store.list('')).toEqual({ keys: ['valise'] });
    await expect(store.get('valise:sealed')).rejects.toMatchObject({ code: 'store-invalid' });
    await expect(store.put('valise:sealed', 1)).rejects.toMatchObject({ code: 'store-invalid' });
    await expect(store.delete('valise:sealed')).rejects.toMatchObject({ code: 'store-invalid' });
  });

  it('A sealed store changes its key in three steps: add it, write everything again, retire the old one', async () => {
    const url = `sqlite:${folder}/state.db`;
    const [old, next] = [generateKey(), generateKey()];
    const first = await openStore(url, { keys: old });
    await first.put('a', 1);
    await first.put('b', 2, { ttl: 3600 });
    await first.close();

    const second = await openStore(url, { keys: `${next},${old}` });
    expect((await second.get('a'))?.value).toBe(1);
    const { expiresAt } = (await second.get('b')) as { expiresAt: number };
    expect(await reseal(second)).toBe(2);
    await second.close();

    const third = await openStore(url, { keys: next });
    expect((await third.get('a'))?.value).toBe(1);
    expect((await third.get('b'))?.value).toBe(2);
    expect(Math.abs(((await third.get('b'))?.expiresAt as number) - expiresAt)).toBeLessThan(1000);
    await third.close();
    await expect(openStore(url, { keys: old })).rejects.toMatchObject({ code: 'store-wrong-key' });
  });

  it('A sealed store names the entry that still needs a key that was retired too soon', async () => {
    const [old, next] = [generateKey(), generateKey()];
    await sealedStore(inner, old).put('a', 1);
    await sealedStore(inner, `${next},${old}`).put('b', 2);
    const store = sealedStore(inner, next);
    expect((await store.get('b'))?.value).toBe(2);
    await expect(store.get('a')).rejects.toMatchObject({
      code: 'store-wrong-key',
      message: expect.stringContaining('"a"'),
    });
  });

  it('A sealed store checks the keys again if the store could not be asked', async () => {
    let away = true;
    const flaky: Store = {
      ...inner,
      get: async (key) => (away ? Promise.reject(new Error('away')) : inner.get(key)),
      put: (key, value, options) => inner.put(key, value, options),
      list: (prefix, options) => inner.list(prefix, options),
      delete: (key, options) => inner.delete(key, options),
      lease: (key, ttl) => inner.lease(key, ttl),
      close: () => inner.close(),
    };
    const store = sealedStore(flaky, keys);
    await expect(store.put('a', 1)).rejects.toThrow('away');
    away = false;
    expect(typeof (await store.put('a', 1))).toBe('string');
  });

  it('A sealed store does not print its keys', async () => {
    const { inspect } = await import('node:util');
    const store = sealedStore(inner, keys);
    await store.put('a', 1);
    expect(inspect(store, { depth: 9, showHidden: true })).not.toContain(keys);
  });
});
